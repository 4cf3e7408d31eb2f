"""Rules over several fields: an experiment that is well-formed may still mean nothing, or nothing that can run.

Everything wrong is reported at once, before a device is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from scalecurve_api.contract import places
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import (
    RESERVED,
    AxisError,
    axis_names,
    known_axis,
    resolve,
    same_value,
    spell_value,
)
from scalecurve_api.planning.combinations import Entangled
from scalecurve_api.planning.plan import MAX_TRIALS, count_trials, expand_points, layouts_of
from scalecurve_api.problem import NOTHING, Path, Problem
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.model_catalog import MODELS, models_of
from scalecurve_api.programs.workload import ONE_WORKER, Workload
from scalecurve_api.registry import RegistryError
from scalecurve_api.spec.experiment import AxisValue, ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.job_kinds import JobKind, Runner
from scalecurve_api.spec.scaling import Batch, Mode
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count, did_you_mean, few

_ENV = "env."


def check(experiment: ScalingExperiment) -> list[Problem]:
    """Every broken rule; empty when the experiment can run."""
    spec = experiment.spec
    single_field = (_scaling, _placement, _pods, _variables, _measure, _matrix_names, _exclude_names)
    if problems := [problem for rule in single_field for problem in rule(spec)]:
        return problems
    try:
        trials = count_trials(spec, MAX_TRIALS)
    except Entangled as error:
        return [Problem(("spec", "exclude"), str(error), "fewer rules, or rules over fewer axes")]
    if trials > MAX_TRIALS:
        allowed = f"at most {MAX_TRIALS} trials; make an axis shorter, or exclude combinations"
        return [Problem(("spec",), f"more than {MAX_TRIALS} trials", allowed)]
    if not trials:
        return [Problem(("spec", "exclude"), "rules that leave no trial", "at least one trial")]
    return list({repr(problem): problem for problem in _points(spec)}.values())


def _scaling(spec: ExperimentSpec) -> Iterator[Problem]:
    scaling = spec.scaling
    for name, values in (("workers", scaling.workers), ("modes", scaling.modes)):
        for index, value in enumerate(values):
            if value in values[:index]:
                yield Problem(("spec", "scaling", name, index), value, "each value once")
    if scaling.baseline != "auto" and scaling.baseline not in scaling.workers:
        counts = ", ".join(map(str, scaling.workers))
        yield Problem(("spec", "scaling", "baseline"), scaling.baseline, f"auto, or a worker count: {counts}")
    if not spec.workload.takes_batch:
        return
    for mode, field, value in (
        (Mode.strong, "global", scaling.batch.global_),
        (Mode.weak, "perWorker", scaling.batch.per_worker),
    ):
        if mode in scaling.modes and value is None and f"batch.{field}" not in spec.matrix:
            allowed = f"required for {mode.value} scaling, in samples"
            yield Problem(("spec", "scaling", "batch", field), NOTHING, allowed)


def _placement(spec: ExperimentSpec) -> Iterator[Problem]:
    placement, counts = spec.placement, spec.scaling.workers
    path: Path = ("spec", "placement", "layouts")
    if placement.layouts and placement.workers_per_node is not None:
        yield Problem(path, list(placement.layouts), "either layouts or workersPerNode, not both")
        return
    for index, layout in enumerate(placement.layouts):
        nodes, per_node = map(int, layout.split("x"))
        if nodes * per_node not in counts:
            listed = ", ".join(map(str, counts))
            allowed = f"a layout that gives a worker count ({listed}), and it gives {nodes * per_node}"
            yield Problem((*path, index), layout, allowed)
    for index, workers in enumerate(counts):
        if not layouts_of(spec, workers):
            if placement.layouts:
                allowed = f"a worker count that a layout gives ({', '.join(placement.layouts)})"
            else:
                allowed = f"a multiple of placement.workersPerNode, {placement.workers_per_node}, or fewer"
            yield Problem(("spec", "scaling", "workers", index), workers, allowed)


def _pods(spec: ExperimentSpec) -> Iterator[Problem]:
    pods = spec.placement.pods_per_node
    if pods == 1:
        return
    for workers in spec.scaling.workers:
        for nodes, per_node in layouts_of(spec, workers):
            if per_node % pods:
                allowed = f"a divisor of the workers on each node; layout {nodes}x{per_node} has {per_node}"
                yield Problem(("spec", "placement", "podsPerNode"), pods, allowed)
                return


def _variables(spec: ExperimentSpec) -> Iterator[Problem]:
    allowed = "another name: this one tells each process its rank, and is set for each of them"
    for name, value in spec.workload.env.items():
        if places(name):
            yield Problem(("spec", "workload", "env", name), value, allowed)
    for axis, values in spec.matrix.items():
        if axis.startswith(_ENV) and places(axis.removeprefix(_ENV)):
            yield Problem(("spec", "matrix", axis), list(values), allowed)


def _measure(spec: ExperimentSpec) -> Iterator[Problem]:
    measure, data = spec.measure, spec.workload.data
    if measure.max_warmup_steps < measure.warmup_steps:
        allowed = f"at least warmupSteps, {measure.warmup_steps}"
        yield Problem(("spec", "measure", "maxWarmupSteps"), measure.max_warmup_steps, allowed)
    if measure.accuracy is not None and data.source is DataSource.synthetic and "data.source" not in spec.matrix:
        real = ", ".join(source.value for source in DataSource if source is not DataSource.synthetic)
        path = ("spec", "workload", "data", "source")
        yield Problem(path, data.source.value, f"real data for measure.accuracy: {real}")


def _matrix_names(spec: ExperimentSpec) -> Iterator[Problem]:
    programs = spec.matrix.get("program", [spec.workload.program])
    names = axis_names(programs)
    for name, values in spec.matrix.items():
        if not known_axis(name, names):
            allowed = f"a field of the workload: {', '.join(names)}, env.NAME"
            if name in RESERVED:
                allowed = f"another axis: {name} is set by spec.scaling and spec.placement"
            yield Problem(("spec", "matrix", name), f"an unknown axis {name!r}", allowed, did_you_mean(name, names))
            continue
        spelled = [spell_value(value) for value in values]
        for index, value in enumerate(values):
            if spell_value(value) in spelled[:index]:
                yield Problem(("spec", "matrix", name, index), value, "each value once")
            if (refused := _refused(spec, name, value, programs)) is not None:
                yield Problem(("spec", "matrix", name, index), value, refused)


def _refused(spec: ExperimentSpec, name: str, value: AxisValue, programs: Sequence[AxisValue]) -> str | None:
    """What is allowed instead of a value of an axis that no program takes."""
    errors = []
    for program in [value] if name == "program" else programs:
        axes = {"program": program, name: value} if "program" in spec.matrix else {name: value}
        try:
            resolve(spec.workload, spec.scaling.batch, axes)
        except AxisError as error:
            errors.append(error)
        else:
            return None
    return next((error.allowed for error in errors if error.name == name), errors[0].allowed)


def _exclude_names(spec: ExperimentSpec) -> Iterator[Problem]:
    axes: dict[str, Sequence[AxisValue]] = {
        "mode": [mode.value for mode in spec.scaling.modes],
        "workers": spec.scaling.workers,
        "layout": [f"{n}x{per_node}" for workers in spec.scaling.workers for n, per_node in layouts_of(spec, workers)],
        **spec.matrix,
    }
    for index, rule in enumerate(spec.exclude):
        path: Path = ("spec", "exclude", index)
        if not rule:
            yield Problem(path, "{}", "at least one axis and its value")
        for name, value in rule.items():
            if name not in axes:
                allowed = f"one of {', '.join(axes)}"
                yield Problem((*path, name), f"an unknown axis {name!r}", allowed, did_you_mean(name, axes))
            elif not any(same_value(value, other) for other in axes[name]):
                values = [spell_value(other) for other in axes[name]]
                allowed = f"a value that axis has: {few(values, 60)}"
                yield Problem((*path, name), value, allowed, did_you_mean(spell_value(value), values[:60]))


def _points(spec: ExperimentSpec) -> Iterator[Problem]:
    resolved: dict[str, tuple[Workload, Batch]] = {}
    series: dict[str, set[int]] = {}
    may_be_single: set[str] = set()
    for point in expand_points(spec):
        key = canonical_json(dict(point.axes))
        if key not in resolved:
            try:
                resolved[key] = resolve(spec.workload, spec.scaling.batch, point.axes)
            except AxisError as error:
                yield Problem(("spec", "matrix", error.name), error.value, error.allowed)
                return
            yield from _workload(spec, resolved[key][0])
        workload, batch = resolved[key]
        for problem in workload.problems(point.workers, point.nodes):
            if problem.path[2] != "parameterServer" or len(problem.path) > 3 or "strategy" not in spec.matrix:
                yield replace(problem, path=_in_matrix(spec, problem.path))
        if spec.measure.accuracy is not None:
            yield from workload.accuracy_problems(spec.measure.accuracy, point.workers)
        if workload.takes_batch:
            yield from _divides(workload, batch, point)
        samples = spec.measure.epoch_samples
        if samples is not None and point.global_batch is not None and samples < point.global_batch:
            allowed = f"at least one global batch, {point.global_batch} at {count(point.workers, 'worker')}"
            yield Problem(("spec", "measure", "epochSamples"), samples, allowed)
        series.setdefault(point.series, set()).add(point.workers)
        if workload.resolved_strategy in ONE_WORKER or not workload.takes_batch:
            may_be_single.add(point.series)
    for name, counts in series.items():
        if len(counts) == 1 and name not in may_be_single:
            given = f"series {name!r} has one point, at {count(next(iter(counts)), 'worker')}"
            yield Problem(("spec", "scaling", "workers"), given, "at least two worker counts in every series")


def _divides(workload: Workload, batch: Batch, point: Point) -> Iterator[Problem]:
    accumulation = workload.gradient_accumulation
    if point.mode is Mode.weak:
        if batch.per_worker is not None and batch.per_worker % accumulation:
            allowed = f"a multiple of gradientAccumulation, {accumulation}"
            yield Problem(_batch_path(point, "perWorker"), batch.per_worker, allowed)
        return
    parts = point.workers * accumulation
    total = batch.global_
    if total is None or total % parts == 0:
        return
    near = sorted({max(parts, total // parts * parts), (total // parts + 1) * parts})
    divisor = count(point.workers, "worker")
    if accumulation > 1:
        divisor += f" x {accumulation} gradientAccumulation"
    near_text = " or ".join(map(str, near))
    allowed = f"a multiple of {parts} for strong scaling to {divisor}, such as {near_text}"
    yield Problem(_batch_path(point, "global"), total, allowed)


def _batch_path(point: Point, name: str) -> Path:
    axis = f"batch.{name}"
    return ("spec", "matrix", axis) if axis in point.axes else ("spec", "scaling", "batch", name)


def _workload(spec: ExperimentSpec, workload: Workload) -> Iterator[Problem]:
    data = workload.data
    yield from _model(spec, workload)
    if data.source.on_disk and data.path is None and workload.runs:
        path = _in_matrix(spec, ("spec", "workload", "data", "path"))
        yield Problem(path, NOTHING, f"the folder that holds {data.source.value}")
    if spec.runner is not None:
        for allowed in _other_runners(workload, spec.runner.job_kind):
            yield Problem(("spec", "runner"), spec.runner.value, allowed)
    pods = spec.placement.pods_per_node
    if workload.one_process and pods > 1:
        allowed = f"1 for strategy {workload.resolved_strategy}: one process drives every worker"
        yield Problem(("spec", "placement", "podsPerNode"), pods, allowed)


def _model(spec: ExperimentSpec, workload: Workload) -> Iterator[Problem]:
    framework, name = workload.model_framework, workload.model
    path = _in_matrix(spec, ("spec", "workload", "model"))
    if framework is None:
        return
    try:
        if name in MODELS and getattr(MODELS.get(name), framework):
            return
    except RegistryError as error:
        yield Problem(path, name, str(error))
        return
    models = models_of(framework)
    yield Problem(path, name, f"one of {few(models, 60)} for program {workload.program}", did_you_mean(name, models))


def _other_runners(workload: Workload, job: JobKind) -> Iterator[str]:
    """The kinds of job that can carry the workload, where this one cannot."""
    if workload.needs_parameter_servers and not job.has_parameter_servers:
        yield f"{_runners(lambda kind: kind.has_parameter_servers)}: no other job has parameter servers"
    if workload.needs_mpirun and not job.uses_mpirun:
        yield f"{_runners(lambda kind: kind.uses_mpirun)}: no other job starts ranks with mpirun"
    if workload.needs_mpirun is False and job.uses_mpirun:
        reason = f"mpirun does not start program {workload.program} with strategy {workload.resolved_strategy}"
        yield f"{_runners(lambda kind: not kind.uses_mpirun)}: {reason}"


def _runners(fits: Callable[[JobKind], bool]) -> str:
    return " or ".join(runner.value for runner in Runner if fits(runner.job_kind))


def _in_matrix(spec: ExperimentSpec, path: Path) -> Path:
    """The axis that sets the field at ``path`` under ``spec.workload``, or the field itself."""
    axis = ".".join(map(str, path[2:]))
    return ("spec", "matrix", axis) if axis in spec.matrix else path
