"""What ran in traced steps (``measure.trace``): the device's time, its kernels by class, and its collectives."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve_api.record.step_trace import CollectiveTime, KernelTime, StepTrace
from scalecurve_api.spec.trial import Point

TIME_NOTES = (
    "Mean of the traced ranks and repetitions, in steps under torch's profiler after the timed windows, which the "
    "profiler makes slower. Computing, copies, waiting and idle add up to the step: idle is a device with nothing to "
    "do, for want of data or of a host that is quick enough.",
)
KERNEL_NOTES = (
    "Own time of kernels, or of torch's operations on CPUs; several may run at once, so sums can exceed it.",
)
COLLECTIVE_NOTES = (
    "From start to end, beside computing or not; a rank that is early waits in it for the others. "
    "MB are what one rank hands over.",
)
SKEW_NOTES = (
    "Such a call ends on all ranks together, so a rank that is in it longer than another came earlier by as much. "
    "What slows the last rank down is outside of the call: its data, its share of the work, its clocks.",
)


@dataclass(frozen=True)
class TracedPoint:
    """The traces of a point: of each traced rank of each valid repetition; ``ranks`` has the rank of each."""

    bundle: str
    point: Point
    traces: tuple[StepTrace, ...]
    ranks: tuple[int, ...] = ()

    def mean(self, of: Callable[[StepTrace], float]) -> float:
        """The mean over traces of something of a step."""
        return math.fsum(of(trace) / trace.steps for trace in self.traces) / len(self.traces)

    @property
    def step_s(self) -> float:
        return self.mean(lambda trace: trace.wall_ns) / 1e9


@dataclass(frozen=True)
class _Skew:
    """One collective of a point: the rank that is last to most calls, and the mean wait of each other rank a step."""

    of: TracedPoint
    name: str
    last: int
    share: float
    waited_s: float


@dataclass(frozen=True)
class _Row:
    """What a step has of one class: calls, seconds and bytes, means over the traces of a point."""

    of: TracedPoint
    name: str
    calls: float
    seconds: float
    megabytes: float = 0.0

    @property
    def share(self) -> float:
        return self.seconds / self.of.step_s


def traced_points(bundles: Sequence[Bundle]) -> tuple[TracedPoint, ...]:
    """Every point whose valid trials were traced."""
    found: dict[tuple[str, str], tuple[Point, list[tuple[int, StepTrace]]]] = {}
    for bundle in bundles:
        for trial in bundle.trials:
            traces = trial.record.traces if trial.good and trial.record is not None else []
            if known := [(rank, each) for rank, each in enumerate(traces) if each and each.steps and each.wall_ns]:
                point = trial.spec.point
                found.setdefault((bundle.label, point.name), (point, []))[1].extend(known)
    order = {bundle.label: place for place, bundle in enumerate(bundles)}
    points = [
        TracedPoint(label, point, tuple(trace for _, trace in traced), tuple(rank for rank, _ in traced))
        for (label, _), (point, traced) in found.items()
    ]
    return tuple(sorted(points, key=lambda each: (order[each.bundle], each.point.series, each.point.workers)))


def trace_tables(points: Sequence[TracedPoint], notes: Sequence[str] = TIME_NOTES) -> list[Table]:
    """The device's time, with ``notes``, kernels by class, and collectives; none without a trace."""
    if not points:
        return []
    kernels = [row for point in points for row in _rows(point, lambda trace: trace.kernels)]
    collectives = [row for point in points for row in _rows(point, lambda trace: trace.collectives)]
    tables = [_time_table(points, notes), _table("kernels", "Kernels in traced steps", kernels, KERNEL_NOTES)]
    if collectives:
        title = "Collectives in traced steps"
        tables.append(_table("traced-collectives", title, collectives, COLLECTIVE_NOTES, sized=True))
    if late := [row for point in points for row in _skews(point)]:
        tables.append(_skew_table(late))
    return tables


def _time_table(points: Sequence[TracedPoint], notes: Sequence[str]) -> Table:
    def share(of: Callable[[StepTrace], float]) -> Callable[[TracedPoint], float]:
        return lambda point: point.mean(of) / (point.step_s * 1e9)

    return table_of(
        "traced",
        "Time of traced steps",
        points,
        (
            (experiment_column(point.bundle for point in points), lambda p: p.bundle),
            (Column("series", "Series"), lambda p: p.point.series),
            (Column("workers", "Workers", "count"), lambda p: p.point.workers),
            (Column("step_ms", "Step", "number", "ms"), lambda p: p.step_s * 1e3),
            (Column("computing", "Computing", "percent"), share(lambda trace: trace.computing_ns)),
            (Column("copies", "Only copies", "percent"), share(lambda trace: trace.copy_ns)),
            (Column("exposed", "Only communication", "percent"), share(lambda trace: trace.exposed_ns)),
            (Column("idle", "Idle", "percent"), share(lambda trace: trace.idle_ns)),
            (
                Column("overlapped", "Overlapped communication", "percent"),
                share(lambda trace: trace.communication_ns - trace.exposed_ns),
            ),
            (Column("communication", "Communication in all", "percent"), share(lambda trace: trace.communication_ns)),
            (Column("traces", "Traces", "count"), lambda p: len(p.traces)),
        ),
        notes,
    )


def _table(name: str, title: str, rows: Sequence[_Row], notes: Sequence[str], sized: bool = False) -> Table:
    size = [(Column("mb_per_step", "Data a step", "number", "MB"), lambda row: row.megabytes or None)] if sized else []
    return table_of(
        name,
        title,
        rows,
        (
            (experiment_column(row.of.bundle for row in rows), lambda row: row.of.bundle),
            (Column("series", "Series"), lambda row: row.of.point.series),
            (Column("workers", "Workers", "count"), lambda row: row.of.point.workers),
            (Column("class", "Collective" if sized else "Class"), lambda row: row.name),
            (Column("calls", "Calls a step", "number"), lambda row: row.calls),
            *size,
            (Column("time_ms", "Time", "number", "ms"), lambda row: row.seconds * 1e3),
            (Column("share", "Of the step", "percent"), lambda row: row.share),
        ),
        notes,
    )


def _rows(point: TracedPoint, of: Callable[[StepTrace], Sequence[KernelTime | CollectiveTime]]) -> list[_Row]:
    """A row for each name, the longest first."""

    def mean(name: str, value: Callable[[KernelTime | CollectiveTime], int]) -> float:
        return point.mean(lambda trace: sum(value(each) for each in of(trace) if each.name == name))

    names = dict.fromkeys(each.name for trace in point.traces for each in of(trace))
    rows = [
        _Row(
            point,
            name,
            calls=mean(name, lambda each: each.calls),
            seconds=mean(name, lambda each: each.ns) / 1e9,
            megabytes=mean(name, lambda each: getattr(each, "bytes", 0)) / 1e6,
        )
        for name in names
    ]
    return sorted(rows, key=lambda row: -row.seconds)


def _skews(point: TracedPoint) -> list[_Skew]:
    """Of each collective whose calls could be matched between ranks."""
    result = []
    for name in dict.fromkeys(each.name for trace in point.traces for each in trace.collectives):
        last: Counter[int] = Counter()
        waits: defaultdict[int, list[float]] = defaultdict(list)
        for rank, trace in zip(point.ranks, point.traces, strict=True):
            for each in trace.collectives:
                if each.name == name and each.waited_ns is not None and each.last is not None:
                    last[rank] += each.last
                    waits[rank].append(each.waited_ns / trace.steps / 1e9)
        if len(waits) < 2 or not last.total():
            continue
        rank, calls = last.most_common(1)[0]
        others = [seconds for other, spent in waits.items() if other != rank for seconds in spent]
        result.append(_Skew(point, name, rank, calls / last.total(), math.fsum(others) / len(others)))
    return sorted(result, key=lambda row: -row.waited_s)


def _skew_table(rows: Sequence[_Skew]) -> Table:
    return table_of(
        "skew",
        "Who waits for whom",
        rows,
        (
            (experiment_column(row.of.bundle for row in rows), lambda row: row.of.bundle),
            (Column("series", "Series"), lambda row: row.of.point.series),
            (Column("workers", "Workers", "count"), lambda row: row.of.point.workers),
            (Column("class", "Collective"), lambda row: row.name),
            (Column("last", "Last rank"), lambda row: f"rank {row.last}"),
            (Column("calls", "Last in calls", "percent"), lambda row: row.share),
            (Column("waited_ms", "Another rank waits", "number", "ms"), lambda row: row.waited_s * 1e3),
            (Column("share", "Of the step", "percent"), lambda row: row.waited_s / row.of.step_s),
        ),
        SKEW_NOTES,
    )
