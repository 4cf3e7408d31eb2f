"""Which algorithm explains the measurements, where they can tell at all; and the timed points of a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.curves.allreduce import allreduce
from scalecurve_models.collectives.collective_fit import (
    CrossValidatedCollective,
    TimedAllReduce,
    cross_validate_collective,
)
from scalecurve_models.collectives.costs import ALGORITHMS, RankGroup
from scalecurve_models.fitting.least_squares import FitError

USUAL = "ring"
_ALIKE = 0.02
FEWEST_SIZES = 4
"""Three for a fit, and one to leave out."""
SAME_CURVE = (
    "one worker count: every algorithm over one kind of link draws the same curve, and α and β are its names for it"
)


@dataclass(frozen=True)
class CollectiveComparison:
    """All algorithms on the points of one series; ``best`` predicts what was left out best (``held_out``).

    ``best`` is None, and ``note`` says why, where the points cannot tell the algorithms apart. ``requested`` names the
    algorithm that the runs were asked to use, None where that was left to the library.
    """

    series: str
    points: tuple[TimedAllReduce, ...]
    algorithms: tuple[CrossValidatedCollective, ...]
    failures: tuple[str, ...]
    best: CrossValidatedCollective | None
    note: str
    requested: str | None = None

    def algorithm(self, name: str) -> CrossValidatedCollective | None:
        return next((judged for judged in self.algorithms if judged.fit.algorithm.name == name), None)


def compare_algorithms(
    points: Sequence[TimedAllReduce],
    *,
    series: str = "",
    servers: int | None = None,
    level: float = 0.95,
    requested: str | None = None,
) -> CollectiveComparison:
    """Fit every algorithm; the sharded parameter server only where ``servers`` says how many there were.

    Raises:
        FitError: where not one algorithm can be fitted, with the reason.
    """
    sizes = len({point.bytes for point in points})
    if sizes < FEWEST_SIZES:
        raise FitError(f"collectives: needs at least {FEWEST_SIZES} message sizes, given {sizes}")
    placed = [TimedAllReduce(RankGroup(p.shape.ranks, p.shape.nodes, servers or 1), p.bytes, p.seconds) for p in points]
    judged, failures = [], []
    several_nodes = any(p.shape.nodes > 1 and p.shape.per_node > 1 for p in placed)
    for name, algorithm in ALGORITHMS.items():
        if (name == "sharded-server" and not servers) or (algorithm.links > 1 and not several_nodes):
            continue
        try:
            judged.append(cross_validate_collective(algorithm, placed, level=level))
        except FitError as error:
            failures.append(str(error))
    if not judged:
        raise FitError(failures[0])
    several = len({point.shape.ranks for point in placed if point.shape.ranks > 1}) > 1
    best, note = _best(judged) if several else (None, SAME_CURVE)
    return CollectiveComparison(series, tuple(placed), tuple(judged), tuple(failures), best, note, requested)


def _best(judged: Sequence[CrossValidatedCollective]) -> tuple[CrossValidatedCollective, str]:
    least = min(each.held_out for each in judged)
    alike = [each for each in judged if each.held_out <= least * (1 + _ALIKE)]
    names = [each.fit.algorithm.name for each in alike]
    best = alike[names.index(USUAL)] if USUAL in names else alike[0]
    others = ", ".join(name for name in names if name != best.fit.algorithm.name)
    return best, f"these points do not tell {best.fit.algorithm.name} from {others}" if others else ""


def requested_algorithms(bundle: Bundle) -> dict[str, str]:
    """The algorithm that the runs of a series were asked to use, by its name here; series without one are left out.

    NCCL's tree is a pipelined double binary tree.
    """
    found: dict[str, str] = {}
    for trial in bundle.trials:
        asked = trial.spec.workload.field_value("allReduce")
        if trial.record is not None and trial.record.backend == "nccl" and asked == "tree":
            asked = "double-tree"
        if asked in ALGORITHMS:
            found[trial.spec.point.series] = asked
    return found


def timed_points(bundle: Bundle) -> dict[str, tuple[TimedAllReduce, ...]]:
    """The microbenchmark's points of a bundle by series, medians over repetitions; in place where both were timed."""
    out: dict[str, list[TimedAllReduce]] = {}
    for found in allreduce([bundle]).points:
        in_place = any(size.in_place for size in found.sizes)
        shape = RankGroup(found.point.workers, found.point.nodes)
        out.setdefault(found.point.series, []).extend(
            TimedAllReduce(shape, size.bytes, size.time_us.median / 1e6)
            for size in found.sizes
            if size.messages == 1 and size.in_place == in_place and size.errors == 0 and size.time_us.median > 0
        )
    return {series: tuple(points) for series, points in out.items() if points}
