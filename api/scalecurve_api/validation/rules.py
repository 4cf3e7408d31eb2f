"""Rules over several fields: an experiment that is well-formed may still mean nothing, or nothing that can run.

Everything wrong is reported at once, before a device is taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scalecurve_api.contract import places
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import RESERVED, AxisError, axis_names, known_axis, open_axes, resolve, same_value
from scalecurve_api.planning.combinations import Entangled
from scalecurve_api.planning.plan import MAX_TRIALS, count_trials, expand_points, layouts_of
from scalecurve_api.planning.runner_choice import misfits
from scalecurve_api.problem import (
    NOTHING,
    Description,
    Path,
    Problem,
    expected,
    expected_once,
    forbidden,
    one_of,
    required,
    reserved,
    unknown,
    unsupported,
)
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.model_catalog import MODELS, models_of
from scalecurve_api.programs.workload import Workload
from scalecurve_api.registry import RegistryError
from scalecurve_api.spec import placeholders
from scalecurve_api.spec.experiment import AxisValue, ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.pod_options import MAX_NODES, Nesting
from scalecurve_api.spec.scaling import Batch, Mode
from scalecurve_api.spec.secrets import is_plain, secret_name
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count, did_you_mean, few, spell_value
from scalecurve_api.validation.fits import too_large
from scalecurve_api.validation.ladder import ladder_problems
from scalecurve_api.validation.pod_template import template_problems

_ENV = "env."


def check(experiment: ScalingExperiment) -> list[Problem]:
    """Every broken rule; empty when the experiment can run."""
    spec = experiment.spec
    single_field = (
        _scaling,
        ladder_problems,
        _placement,
        _pods,
        template_problems,
        _variables,
        _measure,
        _matrix_names,
        _exclude_names,
        _report,
    )
    if problems := [problem for rule in single_field for problem in rule(spec)]:
        return problems
    try:
        trials = count_trials(spec, MAX_TRIALS // spec.measure.sessions.count) * spec.measure.sessions.count
    except Entangled as error:
        return [Problem(("spec", "exclude"), Description(error), expected("fewer rules, or rules over fewer axes"))]
    if trials > MAX_TRIALS:
        fewer = expected(f"at most {MAX_TRIALS} trials; make an axis shorter, or exclude combinations")
        return [Problem(("spec",), Description(f"more than {MAX_TRIALS} trials"), fewer)]
    if not trials:
        return [
            Problem(("spec", "exclude"), Description("rules that exclude every trial"), expected("at least one trial"))
        ]
    broken = list({repr(problem): problem for problem in _points(spec)}.values())
    return broken or list(too_large(spec, spec.resources.device_memory_gb))


def _scaling(spec: ExperimentSpec) -> Iterator[Problem]:
    scaling = spec.scaling
    for name, values in (("workers", scaling.workers), ("modes", scaling.modes)):
        for index, value in enumerate(values):
            if value in values[:index]:
                yield Problem(("spec", "scaling", name, index), value, expected_once())
    if scaling.baseline != "auto" and scaling.baseline not in scaling.workers:
        counts = ", ".join(map(str, scaling.workers))
        yield Problem(("spec", "scaling", "baseline"), scaling.baseline, expected(f"auto or a worker count: {counts}"))
    if not spec.workload.takes_batch:
        return
    for mode, field, value in (
        (Mode.strong, "global", scaling.batch.global_),
        (Mode.weak, "perWorker", scaling.batch.per_worker),
    ):
        if mode is Mode.weak and spec.workload.knows_own_batch:
            continue
        if mode in scaling.modes and value is None and f"batch.{field}" not in spec.axes:
            batch = required(f"samples per step, for {mode.value} scaling")
            yield Problem(("spec", "scaling", "batch", field), NOTHING, batch)


def _report(spec: ExperimentSpec) -> Iterator[Problem]:
    axes = [name for name in ("workers", "layout", *spec.axes) if name in spec.axes or _varies(spec, name)]
    if spec.report.x is not None and spec.report.x not in axes:
        varies = expected(f"an axis that varies: {', '.join(axes)}") if axes else forbidden("nothing varies")
        yield Problem(("spec", "report", "x"), spec.report.x, varies)


def _varies(spec: ExperimentSpec, name: str) -> bool:
    if name == "workers":
        return len(spec.scaling.workers) > 1
    return any(len(set(layouts_of(spec, workers))) > 1 for workers in spec.scaling.workers)


def _placement(spec: ExperimentSpec) -> Iterator[Problem]:
    placement, counts = spec.placement, spec.scaling.workers
    path: Path = ("spec", "placement", "layouts")
    if placement.layouts and placement.workers_per_node is not None:
        yield Problem(path, list(placement.layouts), unsupported("beside workersPerNode", "one of them"))
        return
    for index, layout in enumerate(placement.layouts):
        nodes, per_node = map(int, layout.split("x"))
        if nodes * per_node not in counts:
            listed = one_of(counts)
            violation = expected(f"a layout with {listed} workers, not {nodes * per_node}")
            yield Problem((*path, index), layout, violation)
    for index, workers in enumerate(counts):
        if not layouts_of(spec, workers):
            if placement.layouts:
                divided = f"a worker count of placement.layouts: {', '.join(placement.layouts)}"
            else:
                divided = f"a multiple of {placement.workers_per_node}, placement.workersPerNode, or fewer"
            yield Problem(("spec", "scaling", "workers", index), workers, expected(divided))
        elif placement.nesting is Nesting.require and max(nodes for nodes, _ in layouts_of(spec, workers)) > MAX_NODES:
            where = f"on more than {MAX_NODES} nodes with placement.nesting: require"
            yield Problem(("spec", "scaling", "workers", index), workers, unsupported(where, "prefer"))


def _pods(spec: ExperimentSpec) -> Iterator[Problem]:
    pods = spec.placement.pods_per_node
    if pods == 1:
        return
    for workers in spec.scaling.workers:
        for nodes, per_node in layouts_of(spec, workers):
            if per_node % pods:
                divisor = f"a divisor of {per_node}, the workers per node of layout {nodes}x{per_node}"
                yield Problem(("spec", "placement", "podsPerNode"), pods, expected(divisor))
                return


def _variables(spec: ExperimentSpec) -> Iterator[Problem]:
    rank = reserved("set for each process, to tell it its rank")
    for name, value in spec.workload.env.items():
        if places(name):
            yield Problem(("spec", "workload", "env", name), value, rank)
    for axis, values in spec.matrix.items():
        if axis.startswith(_ENV) and places(axis.removeprefix(_ENV)):
            yield Problem(("spec", "matrix", axis), list(values), rank)
        elif axis.startswith(_ENV) and secret_name(axis) and not all(is_plain(str(value)) for value in values):
            public = expected("a variable that may appear in names and plots")
            yield Problem(("spec", "matrix", axis), Description("values of a secret"), public)
    for index, source in enumerate(spec.workload.env_from):
        path: Path = ("spec", "workload", "envFrom", index)
        if (source.secret is None) == (source.config_map is None):
            yield Problem(path, source.wire(), expected("either secret or configMap"))
        if source.name is not None and source.key is None:
            yield Problem((*path, "name"), source.name, forbidden("without key every key becomes a variable"))
        if source.prefix is not None and source.key is not None:
            yield Problem((*path, "prefix"), source.prefix, forbidden("beside key, name sets the variable's name"))
        if source.variable is not None and places(source.variable):
            yield Problem((*path, "name"), source.variable, rank)


def _measure(spec: ExperimentSpec) -> Iterator[Problem]:
    measure, data = spec.measure, spec.workload.data
    if measure.max_warmup_steps < measure.warmup_steps:
        least = expected(f"at least warmupSteps, {measure.warmup_steps}")
        yield Problem(("spec", "measure", "maxWarmupSteps"), measure.max_warmup_steps, least)
    every = spec.workload.sync_every if isinstance(spec.workload, CustomWorkload) else None
    for name, steps in (("stepsPerWindow", measure.steps_per_window), ("warmupSteps", measure.warmup_steps)):
        if every is not None and (steps % every or not steps):
            multiple = expected(f"a multiple of {every}, workload.syncEvery")
            yield Problem(("spec", "measure", name), steps, multiple)
    if measure.precision is not None and measure.precision.max_repetitions < measure.repetitions:
        least = expected(f"at least repetitions, {measure.repetitions}")
        path: Path = ("spec", "measure", "precision", "maxRepetitions")
        yield Problem(path, measure.precision.max_repetitions, least)
    if measure.accuracy is not None and data.source is DataSource.synthetic and "data.source" not in spec.matrix:
        real = ", ".join(source.value for source in DataSource if source is not DataSource.synthetic)
        path = ("spec", "workload", "data", "source")
        yield Problem(path, data.source.value, expected(f"real data for measure.accuracy: {real}"))


def _matrix_names(spec: ExperimentSpec) -> Iterator[Problem]:
    programs = spec.matrix.get("program", [spec.workload.program])
    names = (*axis_names(programs), *open_axes(programs))
    for name, values in spec.matrix.items():
        if not known_axis(name, names):
            taken = reserved("set by spec.scaling and spec.placement") if name in RESERVED else None
            yield Problem(("spec", "matrix", name), name, taken or unknown("axis", name, names))
            continue
        spelled = [spell_value(value) for value in values]
        for index, value in enumerate(values):
            if spell_value(value) in spelled[:index]:
                yield Problem(("spec", "matrix", name, index), value, expected_once())
            if (refused := _refused(spec, name, value, programs)) is not None:
                yield Problem(("spec", "matrix", name, index), value, expected(refused))


def _refused(spec: ExperimentSpec, name: str, value: AxisValue, programs: Sequence[AxisValue]) -> str | None:
    """Return what is expected instead of a value of an axis that no program takes."""
    errors = []
    for program in [value] if name == "program" else programs:
        axes = {"program": program, name: value} if "program" in spec.matrix else {name: value}
        try:
            resolve(spec.workload, spec.scaling.batch, axes)
        except AxisError as error:
            errors.append(error)
        else:
            return None
    return next((error.expected for error in errors if error.name == name), errors[0].expected)


def _exclude_names(spec: ExperimentSpec) -> Iterator[Problem]:
    axes: dict[str, Sequence[AxisValue]] = {
        "mode": [mode.value for mode in spec.scaling.modes],
        "workers": spec.scaling.workers,
        "layout": [f"{n}x{per_node}" for workers in spec.scaling.workers for n, per_node in layouts_of(spec, workers)],
        **spec.axes,
    }
    for index, rule in enumerate(spec.exclude):
        path: Path = ("spec", "exclude", index)
        if not rule:
            yield Problem(path, {}, expected("at least one axis and its value"))
        for name, value in rule.items():
            if name not in axes:
                yield Problem((*path, name), name, unknown("axis", name, axes))
            elif not any(same_value(value, other) for other in axes[name]):
                values = [spell_value(other) for other in axes[name]]
                near = did_you_mean(spell_value(value), values[:60])
                yield Problem((*path, name), value, expected(f"a value of that axis: {few(values, 60)}", near))


def _points(spec: ExperimentSpec) -> Iterator[Problem]:
    resolved: dict[str, tuple[Workload, Batch]] = {}
    for point in expand_points(spec):
        key = canonical_json(dict(point.axes))
        if key not in resolved:
            try:
                resolved[key] = resolve(spec.workload, spec.scaling.batch, point.axes)
            except AxisError as error:
                yield Problem(("spec", "matrix", error.name), error.value, expected(error.expected))
                return
            yield from _workload(spec, resolved[key][0])
        workload, batch = resolved[key]
        for problem in workload.problems(point.workers, point.nodes):
            if problem.path[2] != "parameterServer" or len(problem.path) > 3 or "strategy" not in spec.matrix:
                yield replace(problem, path=_in_matrix(spec, problem.path))
        if spec.measure.trace is not None and (workload.reported or not workload.traceable):
            traced = forbidden(f"torch's profiler sees no steps of program {workload.program}")
            yield Problem(("spec", "measure", "trace"), spec.measure.trace.wire(), traced)
        if spec.measure.accuracy is not None:
            yield from workload.accuracy_problems(spec.measure.accuracy, point.workers)
        if workload.takes_batch:
            yield from _divides(workload, batch, point)
        samples = spec.measure.epoch_samples
        if samples is not None and point.global_batch is not None and samples < point.global_batch:
            least = expected(f"at least {point.global_batch}, the global batch at {count(point.workers, 'worker')}")
            yield Problem(("spec", "measure", "epochSamples"), samples, least)


def _divides(workload: Workload, batch: Batch, point: Point) -> Iterator[Problem]:
    accumulation = workload.gradient_accumulation
    if workload.layout is not None:
        yield from _divides_groups(workload, batch, point)
        return
    if point.mode is Mode.weak:
        if batch.per_worker is not None and batch.per_worker % accumulation:
            multiple = expected(f"a multiple of {accumulation}, {_parts(workload)}")
            yield Problem(_batch_path(point, "perWorker"), batch.per_worker, multiple)
        return
    parts = point.workers * accumulation
    total = batch.global_
    if total is None or total % parts == 0:
        return
    near = one_of(sorted({max(parts, total // parts * parts), (total // parts + 1) * parts}))
    divisor = count(point.workers, "worker") + (f" x {accumulation} {_parts(workload)}" if accumulation > 1 else "")
    multiple = expected(f"a multiple of {parts} for strong scaling to {divisor}, such as {near}")
    yield Problem(_batch_path(point, "global"), total, multiple)


def _parts(workload: Workload) -> str:
    """What divides the batch of a worker."""
    if isinstance(workload, CustomWorkload):
        return f"parts of {{batchPerWorker/{workload.gradient_accumulation}}}"
    return "gradientAccumulation"


def _divides_groups(workload: Workload, batch: Batch, point: Point) -> Iterator[Problem]:
    """The global batch, of both modes, divides into data-parallel groups, and each group's into its parts."""
    degrees, total = point.parallelism, point.global_batch
    if degrees is None or total is None or workload.layout is None:
        return
    stated = workload.layout.micro_batches if degrees.pipeline > 1 else None
    parts = (stated or 1) * workload.gradient_accumulation
    if total % (degrees.data * parts) == 0:
        return
    groups = f"{count(degrees.data, 'data-parallel group')} at {count(point.workers, 'worker')}"
    divisor = groups + (f" x {parts} micro-batches" if parts > 1 else "")
    field, value = ("global", total) if point.mode is Mode.strong else ("perWorker", batch.per_worker)
    multiple = expected(f"a global batch that is a multiple of {degrees.data * parts}, not {total}: {divisor}")
    yield Problem(_batch_path(point, field), value, multiple)


def _batch_path(point: Point, name: str) -> Path:
    axis = f"batch.{name}"
    if point.rung is not None and name == "perWorker":
        return ("spec", "scaling", "batch", "ladder")
    return ("spec", "matrix", axis) if axis in point.axes else ("spec", "scaling", "batch", name)


def _workload(spec: ExperimentSpec, workload: Workload) -> Iterator[Problem]:
    data = workload.data
    yield from _model(spec, workload)
    if isinstance(workload, CustomWorkload):
        for problem in placeholders.problems(workload, spec.matrix):
            yield replace(problem, path=_in_matrix(spec, problem.path))
    if data.source.on_disk and data.path is None and workload.runs:
        path = _in_matrix(spec, ("spec", "workload", "data", "path"))
        yield Problem(path, NOTHING, required(f"the folder that holds {data.source.value}"))
    if spec.runner is not None:
        for violation in misfits(workload, spec.runner.job_kind):
            yield Problem(("spec", "runner"), spec.runner.value, violation)
    pods = spec.placement.pods_per_node
    if workload.one_process and pods > 1:
        kind = f"strategy {workload.resolved_strategy}" if workload.resolved_strategy else "a single process"
        where = f"with {kind}, where one process drives every worker"
        yield Problem(("spec", "placement", "podsPerNode"), pods, unsupported(where, "1"))


def _model(spec: ExperimentSpec, workload: Workload) -> Iterator[Problem]:
    framework, name = workload.model_framework, workload.model
    path = _in_matrix(spec, ("spec", "workload", "model"))
    if framework is None:
        return
    try:
        if name in MODELS and getattr(MODELS.get(name), framework):
            return
    except RegistryError as error:
        yield Problem(path, name, expected(f"a model of the catalog: {error}"))
        return
    models = models_of(framework)
    near = did_you_mean(name, models)
    listed = "" if near else f": {few(models, 60)}"
    yield Problem(path, name, expected(f"a model of program {workload.program}{listed}", near))


def _in_matrix(spec: ExperimentSpec, path: Path) -> Path:
    """The axis that sets the field at ``path`` under ``spec.workload``, or the field itself."""
    axis = ".".join(map(str, path[2:]))
    return ("spec", "matrix", axis) if axis in spec.matrix else path
