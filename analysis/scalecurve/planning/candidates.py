"""What a search begins with: the points of an experiment that can run, without those that are illegal or too large."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import expand_points, workload_at
from scalecurve_api.programs.memory import GB
from scalecurve_api.spec.experiment import AxisValue, ScalingExperiment
from scalecurve_api.spec.trial import Point
from scalecurve_api.validation.fits import memory_at
from scalecurve_api.validation.rules import check


class RefusalGround(StrEnum):
    """Why a point is dropped before anything runs."""

    illegal = "illegal"
    memory = "memory"
    same = "same"


@dataclass(frozen=True)
class Refusal:
    """A point that is not run, and why."""

    point: Point
    ground: RefusalGround
    why: str


@dataclass(frozen=True)
class Candidates:
    """The experiment without its refused points; ``points`` are those that are left."""

    experiment: ScalingExperiment
    points: tuple[Point, ...]
    refused: tuple[Refusal, ...]

    @property
    def largest_group(self) -> int:
        """Most points that compete with one another."""
        return max((len(members) for members in grouped(self.points).values()), default=0)


def sift(experiment: ScalingExperiment, device_gb: float | None) -> Candidates:
    """Judge every point by itself: by all rules, and by the memory of one worker against the device's.

    Of points that run the same, such as two schedules of no pipeline, the first one is left.
    """
    points, refused = [], []
    first: dict[str, Point] = {}
    for point in expand_points(experiment.spec):
        refusal = _refusal(experiment, point, device_gb)
        if refusal is None and (twin := first.setdefault(_meaning(experiment, point), point)) is not point:
            refusal = Refusal(point, RefusalGround.same, f"runs as {twin.axes_in_words} does")
        if refusal is None:
            points.append(point)
        else:
            refused.append(refusal)
    return Candidates(without(experiment, [each.point for each in refused]), tuple(points), tuple(refused))


def without(experiment: ScalingExperiment, points: Iterable[Point]) -> ScalingExperiment:
    """The experiment with these points excluded."""
    spec = experiment.spec
    rules = [*spec.exclude, *map(_rule, points)]
    return experiment.model_copy(update={"spec": spec.model_copy(update={"exclude": rules})})


def grouped(points: Iterable[Point]) -> dict[tuple[str, int, str], list[Point]]:
    """Points that compete: of one mode, worker count and number of nodes."""
    groups: dict[tuple[str, int, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.mode.value, point.workers, point.layout), []).append(point)
    return groups


def key_of(point: Point) -> str:
    """What tells a point from every other of its experiment."""
    return canonical_json(_rule(point))


def _rule(point: Point) -> dict[str, AxisValue]:
    return {"mode": point.mode.value, "workers": point.workers, "layout": point.layout, **point.axes}


def _refusal(experiment: ScalingExperiment, point: Point, device_gb: float | None) -> Refusal | None:
    alone = _alone(experiment, point)
    if problems := check(alone):
        first = problems[0]
        return Refusal(point, RefusalGround.illegal, f"{first.field}: {first.message}")
    limit = device_gb or experiment.spec.resources.device_memory_gb
    memory = memory_at(experiment.spec, point) if limit is not None else None
    if memory is not None and limit is not None and memory.total > limit * GB:
        return Refusal(point, RefusalGround.memory, f"{memory.arithmetic}, and the device has {limit:g} GB")
    return None


def _meaning(experiment: ScalingExperiment, point: Point) -> str:
    """What a point runs, spelled once: of a layout its degrees above 1, and the schedule where there is a pipeline."""
    degrees = point.parallelism
    workload = workload_at(experiment.spec, point.axes)
    if degrees is None or workload.layout is None or not workload.built_in:
        return key_of(point)
    piped = degrees.pipeline > 1
    layout = {
        "degrees": [[dimension.value, size] for dimension, size in degrees.sizes.items() if size > 1],
        "schedule": workload.layout.schedule.value if piped else None,
        "microBatches": degrees.micro_batches if piped else None,
    }
    axes = {name: value for name, value in point.axes.items() if not name.startswith("parallelism.")}
    return canonical_json([point.mode.value, point.workers, point.layout, axes, layout])


def _alone(experiment: ScalingExperiment, point: Point) -> ScalingExperiment:
    """The experiment with this point only, and without a limit of memory."""
    spec = experiment.spec
    counts = {"modes": [point.mode], "workers": [point.workers], "baseline": "auto"}
    places = {"layouts": [point.layout], "workers_per_node": None}
    alone = spec.model_copy(
        update={
            "scaling": spec.scaling.model_copy(update=counts),
            "placement": spec.placement.model_copy(update=places),
            "matrix": {name: [value] for name, value in point.axes.items()},
            "exclude": [],
            "resources": spec.resources.model_copy(update={"device_memory_gb": None}),
        }
    )
    return experiment.model_copy(update={"spec": alone})
