"""Which algorithm explains the measurements, where they can tell; and the timed points of a bundle."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.features.collectives.allreduce import allreduce
from scalecurve.features.collectives.collectives import OWN, collectives
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_models.collectives.collective_fit import (
    CrossValidatedCollective,
    TimedAllReduce,
    cross_validate_collective,
)
from scalecurve_models.collectives.costs import ALGORITHMS, RankGroup, algorithms_of
from scalecurve_models.fitting.least_squares import FitError

USUAL = "ring"
_ALIKE = 0.02
FEWEST_SIZES = 4  # three to fit, and one to leave out
SAME_CURVE = "with a single worker count every algorithm over one kind of link fits the same curve; only α and β differ"


@dataclass(frozen=True)
class CollectiveComparison:
    """All algorithms on the points of one series; ``best`` has the lowest left-out error (``held_out``).

    ``best`` is None, and ``note`` says why, where the points cannot separate the algorithms. ``requested`` names the
    algorithm that the runs were configured to use, None where the library chose.
    """

    series: str
    points: tuple[TimedAllReduce, ...]
    algorithms: tuple[CrossValidatedCollective, ...]
    failures: tuple[str, ...]
    best: CrossValidatedCollective | None
    note: str
    requested: str | None = None
    collective: Collective = Collective.all_reduce

    def algorithm(self, name: str) -> CrossValidatedCollective | None:
        return next((judged for judged in self.algorithms if judged.fit.algorithm.name == name), None)


def compare_algorithms(
    points: Sequence[TimedAllReduce],
    *,
    series: str = "",
    servers: int | None = None,
    requested: str | None = None,
    collective: Collective = Collective.all_reduce,
) -> CollectiveComparison:
    """Fit every algorithm; the sharded parameter server only where ``servers`` is known.

    Raises FitError with the reason where no algorithm can be fitted.
    """
    sizes = len({point.bytes for point in points})
    if sizes < FEWEST_SIZES:
        raise FitError(f"collectives: needs at least {FEWEST_SIZES} message sizes, got {sizes}")
    placed = [TimedAllReduce(RankGroup(p.shape.ranks, p.shape.nodes, servers or 1), p.bytes, p.seconds) for p in points]
    judged, failures = [], []
    several_nodes = any(p.shape.nodes > 1 and p.shape.per_node > 1 for p in placed)
    for name, algorithm in algorithms_of(collective).items():
        if (name == "sharded-server" and not servers) or (algorithm.links > 1 and not several_nodes):
            continue
        try:
            judged.append(cross_validate_collective(algorithm, placed))
        except FitError as error:
            failures.append(str(error))
    if not judged:
        raise FitError(failures[0])
    several = len({point.shape.ranks for point in placed if point.shape.ranks > 1}) > 1
    best, note = _best(judged) if several else (None, SAME_CURVE)
    return CollectiveComparison(
        series, tuple(placed), tuple(judged), tuple(failures), best, note, requested, collective
    )


def alike(compared: CollectiveComparison, judged: CrossValidatedCollective) -> tuple[CrossValidatedCollective, ...]:
    """Select ``judged`` and every algorithm that predicts what was left out as well as it does."""
    return tuple(e for e in compared.algorithms if e is judged or e.held_out <= judged.held_out * (1 + _ALIKE))


def _best(judged: Sequence[CrossValidatedCollective]) -> tuple[CrossValidatedCollective, str]:
    least = min(each.held_out for each in judged)
    close = [each for each in judged if each.held_out <= least * (1 + _ALIKE)]
    names = [each.fit.algorithm.name for each in close]
    best = close[names.index(USUAL)] if USUAL in names else close[0]
    others = ", ".join(name for name in names if name != best.fit.algorithm.name)
    return best, f"these points do not separate {best.fit.algorithm.name} from {others}" if others else ""


def find_requested_algorithms(bundle: Bundle) -> dict[str, str]:
    """Return the algorithm that the runs of each series were configured to use, by its name here.

    Series without one are omitted. NCCL's tree is a pipelined double binary tree.
    """
    requested: dict[str, str] = {}
    for trial in bundle.trials:
        name = trial.spec.workload.field_value("allReduce")
        if trial.record is not None and trial.record.backend == "nccl" and name == "tree":
            name = "double-tree"
        if name in ALGORITHMS:
            requested[trial.spec.point.series] = name
    return requested


def all_reduce_points(bundle: Bundle) -> dict[str, tuple[TimedAllReduce, ...]]:
    """Collect a bundle's microbenchmark points by series, medians over repetitions; in place where both were timed."""
    out: dict[str, list[TimedAllReduce]] = {}
    for measured in allreduce([bundle]).points:
        in_place = any(size.in_place for size in measured.sizes)
        group = RankGroup(measured.point.workers, measured.point.nodes)
        out.setdefault(measured.point.series, []).extend(
            TimedAllReduce(group, size.bytes, size.time_us.median / 1e6)
            for size in measured.sizes
            if size.messages == 1 and size.in_place == in_place and size.errors == 0 and size.time_us.median > 0
        )
    return {series: tuple(points) for series, points in out.items() if points}


def collective_points(bundle: Bundle) -> dict[tuple[str, Collective], tuple[TimedAllReduce, ...]]:
    """Collect points of ``program: collectives`` by series and collective: its own right results of single messages."""
    out: dict[tuple[str, Collective], list[TimedAllReduce]] = {}
    for each in collectives([bundle]).results:
        if each.line.tool == OWN and each.line.messages == 1 and each.errors == 0:
            group = RankGroup(each.point.workers, each.point.nodes)
            timed = TimedAllReduce(group, each.line.bytes, each.time_us.value / 1e6)
            out.setdefault((each.point.series, each.line.collective), []).append(timed)
    return {key: tuple(points) for key, points in out.items()}


def compare_bundle(bundle: Bundle, prefix: str = "") -> tuple[tuple[CollectiveComparison, ...], tuple[str, ...]]:
    """Compare the algorithms on every timed series, named with ``prefix``, and tell why others could not be fitted."""
    requested = find_requested_algorithms(bundle)
    comparisons, failures = [], []
    for name, points in all_reduce_points(bundle).items():
        try:
            comparisons.append(compare_algorithms(points, series=prefix + name, requested=requested.get(name)))
        except FitError as error:
            failures.append(f"{name}: {error}")
    for (series, kind), timed in collective_points(bundle).items():
        name = f"{series} {kind.value}"
        try:
            comparisons.append(compare_algorithms(timed, series=prefix + name, collective=kind))
        except FitError as error:
            failures.append(f"{name}: {error}")
    return tuple(comparisons), tuple(failures)
