"""Times of collectives at worker counts that were not timed, by the algorithms that explain those that were.

Where the points do not separate several algorithms, an interval covers all of them. What no point vouches for is
refused: another count where a single one was timed, and several nodes where one was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.text import count as counted
from scalecurve_models.collectives.collective_fit import CrossValidatedCollective
from scalecurve_models.collectives.comparison import CollectiveComparison, alike
from scalecurve_models.collectives.costs import RankGroup
from scalecurve_models.collectives.tables import selected, subject
from scalecurve_models.fitting.least_squares import FitError

LEFT_OUT, FITTED, NOT_MEASURED, REFUSED = "left out", "fitted", "not measured", "refused"
FEWEST_COUNTS = 3  # two to fit the latency of a message and of a call, and one to leave out


@dataclass(frozen=True)
class PredictedCollective:
    """One size at one worker count, in seconds; without ``seconds`` it is refused, for ``reason``."""

    group: RankGroup
    bytes: int
    algorithm: str
    how: str
    measured: float | None = None
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def list_timed_counts(comparisons: Sequence[CollectiveComparison]) -> list[int]:
    """The worker counts that were timed, ascending."""
    return sorted({point.shape.ranks for compared in comparisons for point in compared.points})


def predict_collective(
    compared: CollectiveComparison, workers: Sequence[int], workers_per_node: int | None = None
) -> tuple[PredictedCollective, ...]:
    """Every timed size at these worker counts; those that were timed by a fit without them, where there is one.

    ``workers_per_node`` is that of counts that were not timed, by default the fullest node that was.
    Raises FitError for worker counts below 2.
    """
    if not workers or min(workers) < 2:
        raise FitError(f"predict: a collective needs at least 2 workers, got {min(workers, default='none')}")
    out: list[PredictedCollective] = []
    for count in workers:
        timed = [point for point in compared.points if point.shape.ranks == count]
        out += (
            _predict_timed_count(compared, count) if timed else _predict_other_count(compared, count, workers_per_node)
        )
    return tuple(out)


def prediction_table(
    comparisons: Sequence[CollectiveComparison], predicted: Sequence[Sequence[PredictedCollective]]
) -> Table:
    """One row for each series, worker count and size; a refused count has one row, with the reason."""
    columns = (
        *columns_of("text", series="Series", algorithm="Algorithm"),
        *columns_of("count", workers="Workers", nodes="Nodes"),
        Column("size", "Size"),
        Column("bytes", "Bytes", "count", detail=True),
        Column("how", "Point"),
        *columns_of(
            "number", "µs", measured_us="Measured", predicted_us="Predicted", low_us="95 % low", high_us="95 % high"
        ),
        Column("bus_gb_s", "busbw", "number", "GB/s"),
        Column("reason", "Reason"),
    )
    rows: list[tuple[Cell, ...]] = []
    for compared, found in zip(comparisons, predicted, strict=True):
        for each in found:
            ranks = each.group.ranks
            bus = each.bytes / each.seconds * compared.collective.bus_factor(ranks) / 1e9 if each.seconds else None
            size = (formatting.size(each.bytes), each.bytes) if each.bytes else (None, None)
            times = (
                value if value is None else value * 1e6 for value in (each.measured, each.seconds, each.low, each.high)
            )
            head = (compared.series, each.algorithm, ranks, None if each.how == REFUSED else each.group.nodes)
            rows.append((*head, *size, each.how, *times, bus, each.reason or None))
    notes = ["A left-out count is predicted by a fit to all others, a fitted one by a fit that includes it."]
    if any(each.low is not None for found in predicted for each in found):
        notes.append("95 % intervals are for another run, over all algorithms that the points do not separate.")
    untested = [compared.series for compared in comparisons if len(list_timed_counts([compared])) < FEWEST_COUNTS]
    notes += [
        f"{series}: fewer than {FEWEST_COUNTS} worker counts, so no other count was predicted to test the algorithm."
        for series in untested
    ]
    return Table("collective_at_counts", f"{subject(comparisons)} by worker count", columns, tuple(rows), tuple(notes))


def _predict_timed_count(compared: CollectiveComparison, count: int) -> list[PredictedCollective]:
    judged = selected(compared)
    left_out = judged.ranks_error is not None
    by_ranks = {(left.point.shape, left.point.bytes): left.predicted for left in judged.by_ranks}
    return [
        PredictedCollective(
            point.shape,
            point.bytes,
            judged.fit.algorithm.name,
            LEFT_OUT if left_out else FITTED,
            point.seconds,
            by_ranks[point.shape, point.bytes] if left_out else judged.fit.seconds(point.shape, point.bytes),
        )
        for point in sorted(compared.points, key=lambda point: (point.shape.nodes, point.bytes))
        if point.shape.ranks == count
    ]


def _predict_other_count(
    compared: CollectiveComparison, count: int, workers_per_node: int | None
) -> list[PredictedCollective]:
    groups = {point.shape for point in compared.points if point.shape.ranks > 1}
    full = workers_per_node or max(group.per_node for group in groups)
    nodes = -(-count // full)
    judged = selected(compared)
    name = judged.fit.algorithm.name
    reason = ""
    if len({group.ranks for group in groups}) == 1:
        (ranks,) = {group.ranks for group in groups}
        reason = (
            f"only {counted(ranks, 'worker')} were timed, so that nothing tells how the time grows: time another count"
        )
    elif nodes > 1 and all(group.nodes == 1 for group in groups):
        reason = (
            f"{count:,} workers on {nodes} nodes ({full} per node), but only one node was timed, so that nothing tells "
            "what the network costs: time two nodes, or state --workers-per-node"
        )
    elif count % nodes:
        reason = f"{count:,} workers cannot be spread evenly over {nodes} nodes"
    if reason:
        return [PredictedCollective(RankGroup(count), 0, name, REFUSED, reason=reason)]
    group = RankGroup(count, nodes)
    candidates = alike(compared, judged)
    return [
        _predict_point(judged, candidates, group, size) for size in sorted({point.bytes for point in compared.points})
    ]


def _predict_point(
    judged: CrossValidatedCollective, candidates: Sequence[CrossValidatedCollective], group: RankGroup, size: int
) -> PredictedCollective:
    predictions = [each.fit.predict(group, size) for each in candidates]
    lows = [each.low for each in predictions if each.low is not None]
    highs = [each.high for each in predictions if each.high is not None]
    known = len(lows) == len(highs) == len(predictions)
    return PredictedCollective(
        group,
        size,
        judged.fit.algorithm.name,
        NOT_MEASURED,
        seconds=judged.fit.seconds(group, size),
        low=max(min(lows), 0.0) if known else None,
        high=max(highs) if known else None,
    )
