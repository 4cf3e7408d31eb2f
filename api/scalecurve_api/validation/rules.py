"""Rules over several fields: what a well-formed experiment must also keep before a device is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from scalecurve_api.contract import places
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import (
    AXIS_NAMES,
    RESERVED,
    AxisError,
    known_axis,
    resolve,
    same_value,
    spell_value,
)
from scalecurve_api.planning.combinations import Entangled
from scalecurve_api.planning.plan import MAX_TRIALS, count_trials, expand_points, layouts_of
from scalecurve_api.problem import NOTHING
from scalecurve_api.programs import tensorflow
from scalecurve_api.programs.collectives import launcher_of, over_horovod
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.legality import ONE_WORKER, illegal, strategy_of
from scalecurve_api.programs.model_catalog import MODELS
from scalecurve_api.programs.processes import one_process
from scalecurve_api.programs.training import illegal_beside
from scalecurve_api.programs.workload import Launcher, ParameterServer, Payload, Program, Strategy, Workload
from scalecurve_api.spec.experiment import AxisValue, ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.job_kinds import JobKind, Runner
from scalecurve_api.spec.scaling import Batch, Mode
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import did_you_mean, few
from scalecurve_api.validation.document import Path

_ENV = "env."
Finding = tuple[Path, object, str, str | None]


def check(experiment: ScalingExperiment) -> list[Finding]:
    """Every broken rule as ``(path, given, what is allowed, suggestion)``; empty when the experiment is right."""
    spec = experiment.spec
    of_one_field = (_scaling, _placement, _pods, _variables, _measure, _matrix_names, _exclude_names)
    single = [finding for look in of_one_field for finding in look(spec)]
    if single:
        return single
    try:
        count = count_trials(spec, MAX_TRIALS)
    except Entangled as error:
        return [(("spec", "exclude"), str(error), "fewer rules, or rules over fewer axes", None)]
    if count > MAX_TRIALS:
        allowed = f"at most {MAX_TRIALS} trials; make an axis shorter, or exclude combinations"
        return [(("spec",), f"more than {MAX_TRIALS} trials", allowed, None)]
    if not count:
        return [(("spec", "exclude"), "rules that leave no trial", "at least one trial", None)]
    return list({repr(finding): finding for finding in _points(spec)}.values())


def _scaling(spec: ExperimentSpec) -> Iterator[Finding]:
    scaling = spec.scaling
    for name, values in (("workers", scaling.workers), ("modes", scaling.modes)):
        for index, value in enumerate(values):
            if value in values[:index]:
                yield ("spec", "scaling", name, index), value, "each value once", None
    if scaling.baseline != "auto" and scaling.baseline not in scaling.workers:
        counts = ", ".join(map(str, scaling.workers))
        yield ("spec", "scaling", "baseline"), scaling.baseline, f"auto, or a worker count: {counts}", None
    if spec.workload.program is Program.allreduce:
        return
    for mode, wire, value in (
        (Mode.strong, "global", scaling.batch.global_),
        (Mode.weak, "perWorker", scaling.batch.per_worker),
    ):
        if mode in scaling.modes and value is None and f"batch.{wire}" not in spec.matrix:
            yield ("spec", "scaling", "batch", wire), NOTHING, f"required for {mode.value} scaling, in samples", None


def _placement(spec: ExperimentSpec) -> Iterator[Finding]:
    placement, counts = spec.placement, spec.scaling.workers
    where: Path = ("spec", "placement", "layouts")
    if placement.layouts and placement.workers_per_node is not None:
        yield where, list(placement.layouts), "either layouts or workersPerNode, not both", None
        return
    for index, layout in enumerate(placement.layouts):
        nodes, each = map(int, layout.split("x"))
        if nodes * each not in counts:
            listed = ", ".join(map(str, counts))
            yield (
                (*where, index),
                layout,
                f"a layout that gives a worker count ({listed}), and it gives {nodes * each}",
                None,
            )
    for index, workers in enumerate(counts):
        if not layouts_of(spec, workers):
            if placement.layouts:
                allowed = f"a worker count that a layout gives ({', '.join(placement.layouts)})"
            else:
                allowed = f"a multiple of placement.workersPerNode, {placement.workers_per_node}, or fewer"
            yield ("spec", "scaling", "workers", index), workers, allowed, None


def _pods(spec: ExperimentSpec) -> Iterator[Finding]:
    pods = spec.placement.pods_per_node
    if pods == 1:
        return
    for workers in spec.scaling.workers:
        for nodes, each in layouts_of(spec, workers):
            if each % pods:
                allowed = f"a divisor of every workers-a-node count; layout {nodes}x{each} has {each}"
                yield ("spec", "placement", "podsPerNode"), pods, allowed, None
                return


def _variables(spec: ExperimentSpec) -> Iterator[Finding]:
    allowed = "another name: this one says which process is which rank, and is set for each"
    for name, value in spec.workload.env.items():
        if places(name):
            yield ("spec", "workload", "env", name), value, allowed, None
    for axis, values in spec.matrix.items():
        if axis.startswith(_ENV) and places(axis.removeprefix(_ENV)):
            yield ("spec", "matrix", axis), list(values), allowed, None


def _measure(spec: ExperimentSpec) -> Iterator[Finding]:
    measure, data = spec.measure, spec.workload.data
    if measure.max_warmup_steps < measure.warmup_steps:
        allowed = f"at least warmupSteps, {measure.warmup_steps}"
        yield ("spec", "measure", "maxWarmupSteps"), measure.max_warmup_steps, allowed, None
    if measure.accuracy is not None and data.source is DataSource.synthetic and "data.source" not in spec.matrix:
        real = ", ".join(source.value for source in DataSource if source is not DataSource.synthetic)
        yield ("spec", "workload", "data", "source"), data.source.value, f"real data for measure.accuracy: {real}", None


def _matrix_names(spec: ExperimentSpec) -> Iterator[Finding]:
    for name, values in spec.matrix.items():
        if not known_axis(name):
            allowed = f"a field of the workload: {', '.join(AXIS_NAMES)}, env.NAME"
            if name in RESERVED:
                allowed = f"another axis: {name} is set by spec.scaling and spec.placement"
            yield ("spec", "matrix", name), f"an unknown axis {name!r}", allowed, did_you_mean(name, AXIS_NAMES)
            continue
        spelled = [spell_value(value) for value in values]
        for index, value in enumerate(values):
            if spell_value(value) in spelled[:index]:
                yield ("spec", "matrix", name, index), value, "each value once", None
            try:
                resolve(spec.workload, spec.scaling.batch, {name: value})
            except AxisError as error:
                yield ("spec", "matrix", name, index), value, error.allowed, None


def _exclude_names(spec: ExperimentSpec) -> Iterator[Finding]:
    known: dict[str, Sequence[AxisValue]] = {
        "mode": [mode.value for mode in spec.scaling.modes],
        "workers": spec.scaling.workers,
        "layout": [f"{n}x{each}" for count in spec.scaling.workers for n, each in layouts_of(spec, count)],
        **spec.matrix,
    }
    for index, rule in enumerate(spec.exclude):
        where: Path = ("spec", "exclude", index)
        if not rule:
            yield where, "{}", "at least one axis and its value", None
        for name, value in rule.items():
            if name not in known:
                yield (
                    (*where, name),
                    f"an unknown axis {name!r}",
                    f"one of {', '.join(known)}",
                    did_you_mean(name, known),
                )
            elif not any(same_value(value, each) for each in known[name]):
                allowed = f"a value that axis has: {few(map(spell_value, known[name]), 60)}"
                yield (
                    (*where, name),
                    value,
                    allowed,
                    did_you_mean(spell_value(value), [*map(spell_value, known[name])][:60]),
                )


def _points(spec: ExperimentSpec) -> Iterator[Finding]:
    resolved: dict[str, tuple[Workload, Batch]] = {}
    series: dict[str, set[int]] = {}
    alone: set[str] = set()
    for point in expand_points(spec):
        key = canonical_json(dict(point.axes))
        if key not in resolved:
            try:
                resolved[key] = resolve(spec.workload, spec.scaling.batch, point.axes)
            except AxisError as error:
                yield ("spec", "matrix", error.name), error.value, error.allowed, None
                return
            yield from _workload(spec, resolved[key][0])
        workload, batch = resolved[key]
        for field, given, allowed in illegal(workload, point.workers, point.nodes):
            yield _where(spec, field), given, allowed, None
        for field, given, allowed in illegal_beside(spec.measure, workload, strategy_of(workload), point.workers):
            yield ("spec", *field.split(".")), given, allowed, None
        if workload.program is not Program.allreduce:
            yield from _divides(spec, workload, batch, point)
        samples = spec.measure.epoch_samples
        if samples is not None and point.global_batch is not None and samples < point.global_batch:
            allowed = f"at least one global batch, {point.global_batch} at {point.workers} workers"
            yield ("spec", "measure", "epochSamples"), samples, allowed, None
        series.setdefault(point.series, set()).add(point.workers)
        if strategy_of(workload) in ONE_WORKER or workload.program is Program.allreduce:
            alone.add(point.series)
    for name, counts in series.items():
        if len(counts) == 1 and name not in alone:
            given = f"series {name!r} has one point, {next(iter(counts))} workers"
            yield ("spec", "scaling", "workers"), given, "at least two worker counts in every series", None


def _divides(spec: ExperimentSpec, workload: Workload, batch: Batch, point: Point) -> Iterator[Finding]:
    accumulation = workload.options.gradient_accumulation
    if point.mode is Mode.weak:
        if batch.per_worker is not None and batch.per_worker % accumulation:
            allowed = f"a multiple of gradientAccumulation, {accumulation}"
            yield _batch_path(point, "perWorker"), batch.per_worker, allowed, None
        return
    parts = point.workers * accumulation
    total = batch.global_
    if total is None or total % parts == 0:
        return
    near = sorted({max(parts, total // parts * parts), (total // parts + 1) * parts})
    why = f"{point.workers} workers"
    if accumulation > 1:
        why += f" x {accumulation} gradientAccumulation"
    near_text = " or ".join(map(str, near))
    yield (
        _batch_path(point, "global"),
        total,
        f"a multiple of {parts} for strong scaling to {why}, as {near_text}",
        None,
    )


def _batch_path(point: Point, name: str) -> Path:
    axis = f"batch.{name}"
    return ("spec", "matrix", axis) if axis in point.axes else ("spec", "scaling", "batch", name)


def _workload(spec: ExperimentSpec, workload: Workload) -> Iterator[Finding]:
    program, data = workload.program, workload.data
    known = {Program.torch: MODELS, Program.horovod: MODELS, Program.tensorflow: tensorflow.MODELS}.get(program)
    if program is Program.allreduce and workload.sizes.payload is not Payload.sizes:
        known = MODELS
    if known is not None and workload.model not in known:
        allowed = f"one of {few(known, 60)}" + (f" for program {program.value}" if workload.model in MODELS else "")
        yield _where(spec, "workload.model"), workload.model, allowed, did_you_mean(workload.model, known)
    on_disk = (DataSource.fashion_mnist, DataSource.cifar10, DataSource.image_folder)
    if data.source in on_disk and data.path is None and program is not Program.custom:
        yield _where(spec, "workload.data.path"), NOTHING, f"the folder that holds {data.source.value}", None
    if workload.options.compile and workload.options.static_graph:
        # pytorch/pytorch#93672
        yield (
            _where(spec, "workload.options.staticGraph"),
            True,
            "false with compile: DDP's static graph is eager only",
            None,
        )
    served = strategy_of(workload) is Strategy.parameter_server
    if not served and workload.parameter_server != ParameterServer() and "strategy" not in spec.matrix:
        given = workload.parameter_server.model_dump(mode="json", by_alias=True)
        yield _where(spec, "workload.parameterServer"), given, "goes with strategy parameter-server only", None
    if workload.launcher is Launcher.processes and program in (Program.torch, Program.allreduce):
        allowed = f"torchrun or mpirun for program {program.value}"
        yield _where(spec, "workload.launcher"), "processes", allowed, None
    if program is Program.tensorflow:
        yield from _tensorflow(spec, workload)
    if launcher_of(workload) is Launcher.mpirun and spec.runner and not spec.runner.job_kind.uses_mpirun:
        allowed = _runners(lambda kind: kind.uses_mpirun)
        yield ("spec", "runner"), spec.runner.value, f"{allowed}: no other job starts ranks with mpirun", None


def _tensorflow(spec: ExperimentSpec, workload: Workload) -> Iterator[Finding]:
    over = over_horovod(workload)
    if workload.launcher not in (None, Launcher.mpirun if over else Launcher.processes):
        allowed = "processes for program tensorflow: they find one another by themselves"
        if over:
            allowed = "mpirun with strategy horovod: it starts its ranks"
        yield _where(spec, "workload.launcher"), workload.launcher.value, allowed, None
    if strategy_of(workload) is Strategy.parameter_server:
        if spec.measure.accuracy is not None:
            given = spec.measure.accuracy.model_dump(mode="json", by_alias=True)
            allowed = "left out with TensorFlow's parameter servers, which are timed only"
            yield ("spec", "measure", "accuracy"), given, allowed, None
        if spec.runner and not spec.runner.job_kind.has_parameter_servers:
            allowed = _runners(lambda kind: kind.has_parameter_servers)
            yield ("spec", "runner"), spec.runner.value, f"{allowed}: no other job has parameter servers", None
    elif spec.runner and spec.runner.job_kind.uses_mpirun and not over:
        allowed = _runners(lambda kind: not kind.uses_mpirun)
        yield (
            ("spec", "runner"),
            spec.runner.value,
            f"{allowed}: mpirun starts TensorFlow with strategy horovod only",
            None,
        )
    if one_process(workload) and spec.placement.pods_per_node > 1:
        allowed = "1 for strategy mirrored: one process drives every worker"
        yield ("spec", "placement", "podsPerNode"), spec.placement.pods_per_node, allowed, None


def _runners(suitable: Callable[[JobKind], bool]) -> str:
    return " or ".join(runner.value for runner in Runner if suitable(runner.job_kind))


def _where(spec: ExperimentSpec, field: str) -> Path:
    name = field.removeprefix("workload.")
    return ("spec", "matrix", name) if name in spec.matrix else ("spec", *field.split("."))
