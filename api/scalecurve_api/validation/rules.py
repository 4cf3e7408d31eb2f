"""Rules over several fields: an experiment that is well-formed may still mean nothing, or nothing that can run.

Everything wrong is reported at once, before a device is taken.
"""

from collections.abc import Iterator, Sequence

from scalecurve_api.contract import places
from scalecurve_api.model import MOST_COUNT
from scalecurve_api.planning.axes import RESERVED, AxisError, axis_names, is_axis, open_axes, resolve, same_value
from scalecurve_api.planning.combinations import EntangledRulesError
from scalecurve_api.planning.plan import MAX_TRIALS, count_trials, layouts_of
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
from scalecurve_api.spec.experiment import LADDER_AXIS, AxisValue, ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.pod_options import MAX_NODES, Nesting
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.secrets import is_plain, secret_name
from scalecurve_api.text import did_you_mean, few, spell_value
from scalecurve_api.validation.fits import too_large
from scalecurve_api.validation.pod_template import template_problems
from scalecurve_api.validation.points import point_problems

_ENV = "env."
_LADDER: Path = ("spec", "scaling", "batch", "ladder")
_OF_POINTS: tuple[Path, ...] = (
    ("spec", "scaling", "workers"),
    _LADDER,
    ("spec", "placement"),
    ("spec", "matrix"),
    ("spec", "exclude"),
)
"""What is wrong there leaves no points to judge."""


def check(experiment: ScalingExperiment) -> list[Problem]:
    """Return every broken rule; empty when the experiment can run."""
    spec = experiment.spec
    single_field = (
        _scaling,
        _ladder,
        _placement,
        _pods,
        template_problems,
        _variables,
        _measure,
        _matrix_names,
        _exclude_names,
        _report,
    )
    problems = [problem for rule in single_field for problem in rule(spec)]
    if any(problem.path[: len(part)] == part for problem in problems for part in _OF_POINTS):
        return problems
    if refused := _too_many_or_none(spec):
        return [*problems, refused]
    broken = list({repr(problem): problem for problem in (*problems, *point_problems(spec))}.values())
    return broken or list(too_large(spec, spec.resources.device_memory_gb))


def _too_many_or_none(spec: ExperimentSpec) -> Problem | None:
    try:
        trials = count_trials(spec, MAX_TRIALS // spec.measure.sessions.count) * spec.measure.sessions.count
    except EntangledRulesError as error:
        return Problem(("spec", "exclude"), Description(error), expected("fewer rules, or rules over fewer axes"))
    if trials > MAX_TRIALS:
        fewer = expected(f"at most {MAX_TRIALS} trials; make an axis shorter, or exclude combinations")
        return Problem(("spec",), Description(f"more than {MAX_TRIALS} trials"), fewer)
    if not trials:
        excluded = Description("rules that exclude every trial")
        return Problem(("spec", "exclude"), excluded, expected("at least one trial"))
    return None


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


def _ladder(spec: ExperimentSpec) -> Iterator[Problem]:
    """A ladder raises the batch per worker, so nothing else sets it, and only weak scaling keeps it."""
    batch = spec.scaling.batch
    if batch.ladder is None:
        return
    if batch.per_worker is not None:
        yield Problem(("spec", "scaling", "batch", "perWorker"), batch.per_worker, forbidden("set by batch.ladder"))
    if LADDER_AXIS in spec.matrix:
        yield Problem(("spec", "matrix", LADDER_AXIS), list(spec.matrix[LADDER_AXIS]), forbidden("set by batch.ladder"))
    if Mode.strong in spec.scaling.modes:
        modes = [mode.value for mode in spec.scaling.modes]
        yield Problem(
            ("spec", "scaling", "modes"),
            modes,
            unsupported("with batch.ladder, which raises the batch per worker", "[weak]"),
        )
    if not spec.workload.takes_batch:
        yield Problem(_LADDER, spec.workload.program, expected("a program that has a batch"))
    if (largest := batch.ladder.batches[-1]) > MOST_COUNT:
        smaller = f"a smaller factor or maxBatches: the largest batch would be {largest:,}, above {MOST_COUNT:,}"
        yield Problem((*_LADDER, "maxBatches"), batch.ladder.max_batches, expected(smaller))


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
    measure = spec.measure
    if measure.max_warmup_steps < measure.warmup_steps:
        least = expected(f"at least warmupSteps, {measure.warmup_steps}")
        yield Problem(("spec", "measure", "maxWarmupSteps"), measure.max_warmup_steps, least)
    every = spec.workload.exchange_every
    for name, steps in (("stepsPerWindow", measure.steps_per_window), ("warmupSteps", measure.warmup_steps)):
        if every is not None and (steps % every or not steps):
            multiple = expected(f"a multiple of {every}, the steps from one exchange of the workers to the next")
            yield Problem(("spec", "measure", name), steps, multiple)
    if measure.precision is not None and measure.precision.max_repetitions < measure.repetitions:
        least = expected(f"at least repetitions, {measure.repetitions}")
        path: Path = ("spec", "measure", "precision", "maxRepetitions")
        yield Problem(path, measure.precision.max_repetitions, least)


def _matrix_names(spec: ExperimentSpec) -> Iterator[Problem]:
    programs = spec.matrix.get("program", [spec.workload.program])
    names = (*axis_names(programs), *open_axes(programs))
    for name, values in spec.matrix.items():
        if not is_axis(name, names):
            taken = reserved("set by spec.scaling and spec.placement") if name in RESERVED else None
            yield Problem(("spec", "matrix", name), name, taken or unknown("axis", name, names))
            continue
        spelled = [spell_value(value) for value in values]
        for index, value in enumerate(values):
            if spell_value(value) in spelled[:index]:
                yield Problem(("spec", "matrix", name, index), value, expected_once())
            if (refused := _explain_refusal(spec, name, value, programs)) is not None:
                yield Problem(("spec", "matrix", name, index), value, expected(refused))


def _explain_refusal(spec: ExperimentSpec, name: str, value: AxisValue, programs: Sequence[AxisValue]) -> str | None:
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
