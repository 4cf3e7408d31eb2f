"""The microbenchmark of collectives: time and bandwidth by collective and message size, with intervals.

nccl-tests' conventions: algbw = bytes/time, busbw = algbw by the collective's factor, GB = 1e9 bytes, slowest rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.trial import Trial
from scalecurve.render import formatting
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve.statistics.estimate import Estimate, RepetitionTotals
from scalecurve.statistics.intervals import throughput
from scalecurve_api.features.collectives.facts import COLLECTIVES, CollectiveRow
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.spec.trial import Point

OWN = "scalecurve"
_NONE = "No valid trial measured collectives by themselves; an experiment with program: collectives does."


class Line(NamedTuple):
    """What makes two rows repetitions of one another."""

    collective: Collective
    tool: str
    in_place: bool
    messages: int
    bytes: int


@dataclass(frozen=True)
class CollectiveResult:
    """One collective of one point at one size: ``time_us`` in µs, ``algbw`` and ``busbw`` in GB/s.

    Each repetition's number is the median over its calls, and the interval is over repetitions. ``of_reference`` is
    busbw as a share of what nccl-tests measured in the same trials; None where it was not run.
    """

    bundle: str
    point: Point
    line: Line
    time_us: Estimate
    algbw: Estimate
    busbw: Estimate
    errors: int
    of_reference: float | None = None


@dataclass(frozen=True)
class CollectivesReport(OneTable):
    """All points that ran the microbenchmark."""

    results: tuple[CollectiveResult, ...]

    def table(self) -> Table:
        notes = ["Medians of each repetition's calls, with the 95 % interval over repetitions. 1 GB is 1e9 bytes."]
        if any(each.errors for each in self.results):
            notes.append("Some results differ from the expected ones: the bandwidth of a wrong result is meaningless.")
        if any(each.of_reference is not None for each in self.results):
            notes.append("Of nccl-tests: busbw over that of nccl-tests at the same size, in the same trials.")
        return table_of(
            "collective_bandwidth",
            "Collectives",
            self.results,
            (
                (experiment_column(each.bundle for each in self.results), lambda each: each.bundle),
                (Column("series", "Series"), lambda each: each.point.series),
                (Column("workers", "Workers", "count"), lambda each: each.point.workers),
                (Column("layout", "Layout"), lambda each: each.point.layout),
                (Column("collective", "Collective"), lambda each: each.line.collective.value),
                (Column("tool", "Tool", detail=self._one_tool), lambda each: each.line.tool),
                (Column("size", "Size"), lambda each: formatting.size(each.line.bytes)),
                (Column("bytes", "Bytes", "count", detail=True), lambda each: each.line.bytes),
                (Column("messages", "Messages", "count"), lambda each: each.line.messages),
                (Column("in_place", "In place", "flag"), lambda each: each.line.in_place),
                (Column("time_us", "Time", "number", "µs", interval=True), lambda each: each.time_us),
                (Column("algbw_gb_s", "algbw", "number", "GB/s"), lambda each: each.algbw.value),
                (Column("busbw_gb_s", "busbw", "number", "GB/s", interval=True), lambda each: each.busbw),
                (Column("of_nccl_tests", "Of nccl-tests", "percent"), lambda each: each.of_reference),
                (Column("repetitions", "Repetitions", "count"), lambda each: each.busbw.repetitions),
                (Column("errors", "Wrong elements", "count"), lambda each: each.errors),
            ),
            notes if self.results else (_NONE,),
        )

    @property
    def _one_tool(self) -> bool:
        return len({each.line.tool for each in self.results}) < 2


def rows_of(trial: Trial) -> Iterator[CollectiveRow]:
    """Yield the rows of ``program: collectives``, if the trial is valid."""
    if trial.good and trial.record is not None:
        yield from COLLECTIVES.of(trial.record)


def collectives(bundles: Sequence[Bundle]) -> CollectivesReport:
    """Compute the bandwidths of every collective at every point, over its Succeeded trials.

    Args:
        bundles: What `open_bundles` returned; their labels differ.

    Returns:
        Latency and bandwidths by collective, message size and tool.
    """
    lines: dict[tuple[int, str, Line], list[tuple[Trial, CollectiveRow]]] = {}
    points: dict[tuple[int, str], Point] = {}
    for number, bundle in enumerate(bundles):
        for trial in bundle.trials:
            for row in rows_of(trial):
                point = trial.spec.point
                points[number, point.name] = point
                line = Line(row.collective, row.tool, row.in_place, row.messages, row.bytes)
                lines.setdefault((number, point.name, line), []).append((trial, row))
    order = list(Collective)
    results = [
        _result(bundles[number].label, points[number, name], line, rows) for (number, name, line), rows in lines.items()
    ]
    labels = [bundle.label for bundle in bundles]
    results.sort(
        key=lambda each: (
            *(labels.index(each.bundle), each.point.series, each.point.workers, each.point.nodes),
            *(order.index(each.line.collective), each.line.tool != OWN, each.line[2:]),
        )
    )
    return CollectivesReport(tuple(_compare_with_reference(results)))


def _result(label: str, point: Point, line: Line, rows: Sequence[tuple[Trial, CollectiveRow]]) -> CollectiveResult:
    timed = [RepetitionTotals.of([1], [row.time_us_median], trial.spec.session) for trial, row in rows]
    rate = throughput(timed)  # calls in a microsecond
    algbw = rate.scaled(line.bytes / 1e3)
    return CollectiveResult(
        bundle=label,
        point=point,
        line=line,
        time_us=rate.reciprocal(),
        algbw=algbw,
        busbw=algbw.scaled(line.collective.bus_factor(point.workers)),
        errors=sum(row.errors for _, row in rows),
    )


def _compare_with_reference(results: Sequence[CollectiveResult]) -> Iterator[CollectiveResult]:
    other = {
        (each.bundle, each.point.name, each.line._replace(tool=OWN)): each.busbw.value
        for each in results
        if each.line.tool != OWN
    }
    for each in results:
        reference = other.get((each.bundle, each.point.name, each.line)) if each.line.tool == OWN else None
        yield replace(each, of_reference=each.busbw.value / reference) if reference else each
