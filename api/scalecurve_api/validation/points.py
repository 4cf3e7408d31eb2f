"""Rules of single points: what a workload needs at a worker count, and how its batch divides there."""

from collections.abc import Iterator
from dataclasses import replace

from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import AxisError, resolve
from scalecurve_api.planning.plan import expand_points
from scalecurve_api.planning.runner_choice import misfits
from scalecurve_api.problem import NOTHING, Path, Problem, expected, forbidden, one_of, required, unsupported
from scalecurve_api.programs.model_catalog import MODELS, models_of
from scalecurve_api.programs.workload import Workload
from scalecurve_api.registry import RegistryError
from scalecurve_api.spec import placeholders
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.scaling import Batch, Mode
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count, did_you_mean, few


def point_problems(spec: ExperimentSpec) -> Iterator[Problem]:
    """Check the workload and the batch of every point, whose axes are right."""
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
            if "strategy" not in spec.matrix or ".".join(map(str, problem.path[2:])) not in workload.for_strategies:
                yield replace(problem, path=_axis_path(spec, problem.path))
        if spec.measure.trace is not None and (workload.reported or not workload.traceable):
            traced = forbidden(f"torch's profiler sees no steps of program {workload.program}")
            yield Problem(("spec", "measure", "trace"), spec.measure.trace.wire(), traced)
        for measurement in spec.measure.further:
            for problem in measurement.problems(workload, point.workers):
                yield replace(problem, path=_axis_path(spec, problem.path))
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
            multiple = expected(f"a multiple of {accumulation}, {workload.batch_divisor}")
            yield Problem(_batch_path(point, "perWorker"), batch.per_worker, multiple)
        return
    parts = point.workers * accumulation
    total = batch.global_
    if total is None or total % parts == 0:
        return
    near = one_of(sorted({max(parts, total // parts * parts), (total // parts + 1) * parts}))
    divisor = count(point.workers, "worker") + (
        f" x {accumulation} {workload.batch_divisor}" if accumulation > 1 else ""
    )
    multiple = expected(f"a multiple of {parts} for strong scaling to {divisor}, such as {near}")
    yield Problem(_batch_path(point, "global"), total, multiple)


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
    for problem in placeholders.problems(workload, spec.matrix):
        yield replace(problem, path=_axis_path(spec, problem.path))
    if data.source.is_on_disk and data.path is None and workload.runs:
        path = _axis_path(spec, ("spec", "workload", "data", "path"))
        yield Problem(path, NOTHING, required(data.source.wanted))
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
    path = _axis_path(spec, ("spec", "workload", "model"))
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


def _axis_path(spec: ExperimentSpec, path: Path) -> Path:
    """The axis that sets the field at ``path`` under ``spec.workload``, or the field itself."""
    axis = ".".join(map(str, path[2:]))
    return ("spec", "matrix", axis) if axis in spec.matrix else path
