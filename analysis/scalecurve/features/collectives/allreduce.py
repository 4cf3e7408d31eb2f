"""The all-reduce microbenchmark: latency and bandwidth by message size, with the range over repetitions.

nccl-tests' conventions: algbw = bytes/time, busbw = algbw·2(n-1)/n, GB = 1e9 bytes, time of the slowest rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalecurve.bundle.open import Bundle
from scalecurve.curves.missing import nothing_valid
from scalecurve.render import formatting
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve_api.features.collectives.facts import ALLREDUCE, AllReduceRow
from scalecurve_api.spec.trial import Point

_NONE = "No valid trial measured all-reduce by itself; an experiment with program: allreduce does."


@dataclass(frozen=True)
class RepetitionRange:
    """Median, smallest and largest over repetitions (not an interval)."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class SizeResult:
    """One message size of one point: ``time_us`` in µs, ``algbw`` and ``busbw`` in GB/s over the repetitions.

    ``messages`` above 1: so many all-reduces one after another, of ``bytes`` together.
    """

    bytes: int
    in_place: bool
    repetitions: int
    time_us: RepetitionRange
    algbw: RepetitionRange
    busbw: RepetitionRange
    errors: int
    messages: int = 1


@dataclass(frozen=True)
class PointBandwidth:
    """All sizes of one point, ascending."""

    bundle: str
    point: Point
    sizes: tuple[SizeResult, ...]


@dataclass(frozen=True)
class AllReduceReport(OneTable):
    """All points that ran the microbenchmark."""

    points: tuple[PointBandwidth, ...]
    void: tuple[str, ...] = ()
    """Why bundles have no valid trial."""

    def highest(self) -> dict[tuple[int, int], float]:
        """Return the highest bus bandwidth in GB/s, by workers and nodes."""
        best: dict[tuple[int, int], float] = {}
        for point in self.points:
            key = point.point.workers, point.point.nodes
            best[key] = max([best.get(key, 0.0), *(size.busbw.median for size in point.sizes)])
        return {key: value for key, value in best.items() if value > 0}

    def table(self) -> Table:
        rows = [(p, s) for p in self.points for s in p.sizes]
        notes = ["Median over repetitions of each run's median; min and max over repetitions. 1 GB is 1e9 bytes."]
        if any(s.errors for _, s in rows):
            notes.append("Some results differ from the expected sum: the bandwidth of a wrong sum is meaningless.")
        if any(s.messages > 1 for _, s in rows):
            notes.append(
                "Several messages: back-to-back all-reduces, the way one step of the model sends its gradients."
            )
        return table_of(
            "allreduce",
            "All-reduce",
            rows,
            (
                (experiment_column(p.bundle for p in self.points), lambda row: row[0].bundle),
                (Column("series", "Series"), lambda row: row[0].point.series),
                (Column("workers", "Workers", "count"), lambda row: row[0].point.workers),
                (Column("layout", "Layout"), lambda row: row[0].point.layout),
                (Column("size", "Size"), lambda row: formatting.size(row[1].bytes)),
                (Column("bytes", "Bytes", "count", detail=True), lambda row: row[1].bytes),
                (Column("messages", "Messages", "count"), lambda row: row[1].messages),
                (Column("in_place", "In place", "flag"), lambda row: row[1].in_place),
                (Column("time_us", "Time", "number", "µs"), lambda row: row[1].time_us.median),
                (Column("time_us_min", "least", "number", "µs"), lambda row: row[1].time_us.least),
                (Column("time_us_max", "most", "number", "µs"), lambda row: row[1].time_us.most),
                (Column("algbw_gb_s", "algbw", "number", "GB/s"), lambda row: row[1].algbw.median),
                (Column("busbw_gb_s", "busbw", "number", "GB/s"), lambda row: row[1].busbw.median),
                (Column("busbw_gb_s_min", "least", "number", "GB/s"), lambda row: row[1].busbw.least),
                (Column("busbw_gb_s_max", "most", "number", "GB/s"), lambda row: row[1].busbw.most),
                (Column("repetitions", "Repetitions", "count"), lambda row: row[1].repetitions),
                (Column("errors", "Wrong elements", "count"), lambda row: row[1].errors),
            ),
            notes if rows else self.void or (_NONE,),
        )


def allreduce(bundles: Sequence[Bundle]) -> AllReduceReport:
    """Compute the bandwidths of the all-reduce program at every point, over its Succeeded trials.

    Args:
        bundles: What `open_bundles` returned; their labels differ.

    Returns:
        Latency in microseconds, and algorithm and bus bandwidth in GB/s, by message size.
    """
    points: dict[tuple[str, str], tuple[Point, list[Sequence[AllReduceRow]]]] = {}
    for bundle in bundles:
        for trial in bundle.trials:
            rows = ALLREDUCE.of(trial.record) if trial.good and trial.record is not None else ()
            if rows:
                key = bundle.label, trial.spec.point.name
                points.setdefault(key, (trial.spec.point, []))[1].append(rows)
    order = {bundle.label: index for index, bundle in enumerate(bundles)}
    results = [PointBandwidth(label, point, _sizes(runs)) for (label, _), (point, runs) in points.items()]
    results.sort(key=lambda p: (order[p.bundle], p.point.series, p.point.workers, p.point.nodes))
    return AllReduceReport(tuple(results), tuple(filter(None, map(nothing_valid, bundles))))


def _sizes(runs: Sequence[Sequence[AllReduceRow]]) -> tuple[SizeResult, ...]:
    rows: dict[tuple[int, int, bool], list[AllReduceRow]] = {}
    for run in runs:
        for row in run:
            rows.setdefault((row.messages, row.bytes, row.in_place), []).append(row)
    return tuple(
        SizeResult(
            bytes=size,
            in_place=in_place,
            repetitions=len(rows_by_size),
            time_us=_spread([row.time_us_median for row in rows_by_size]),
            algbw=_spread([row.algbw for row in rows_by_size]),
            busbw=_spread([row.busbw for row in rows_by_size]),
            errors=sum(row.errors for row in rows_by_size),
            messages=messages,
        )
        for (messages, size, in_place), rows_by_size in sorted(rows.items())
    )


def _spread(values: Sequence[float]) -> RepetitionRange:
    return RepetitionRange(median(values), min(values), max(values))
