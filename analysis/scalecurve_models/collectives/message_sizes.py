"""What timed collectives recommend: the fastest series for each message size, and the least size worth sending.

A message too small to fill the links wastes them: buckets of gradients should be at least as large as the size that
reaches ``NEAR`` of the highest bus bandwidth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.text import count as counted
from scalecurve_models.collectives.collective_fit import TimedAllReduce
from scalecurve_models.collectives.comparison import CollectiveComparison
from scalecurve_models.collectives.costs import RankGroup
from scalecurve_models.collectives.predictions import REFUSED, predict_collective
from scalecurve_models.collectives.tables import subject

NEAR = 0.9
MEASURED = "measured"
TIED = 0.02
"""Two series whose medians differ by less are not ranked: runs of the same one differ as much."""


@dataclass(frozen=True)
class LeastSize:
    """The smallest message of a series whose bus bandwidth is ``NEAR`` the highest, ``highest`` in bytes/s."""

    series: str
    group: RankGroup
    basis: str
    bytes: int
    reached: float
    highest: float
    at_largest: bool

    @property
    def sentence(self) -> str:
        share = formatting.percent(self.reached / self.highest, 0)
        said = f"{self.series}: on {self.group.ranks:,} workers send at least {formatting.size(self.bytes)} at once: "
        said += f"{share} of the highest bus bandwidth, {formatting.number(self.highest / 1e9)} GB/s"
        if self.basis != MEASURED:
            said += " (predicted)"
        return said + ("; larger messages may be faster still: time larger ones" if self.at_largest else "")


def least_sizes(
    comparisons: Sequence[CollectiveComparison], workers: Sequence[int] = (), workers_per_node: int | None = None
) -> tuple[tuple[LeastSize, ...], tuple[str, ...]]:
    """For every timed group of a series and every further count that can be predicted; and why others cannot."""
    out: list[LeastSize] = []
    refused: list[str] = []
    for compared in comparisons:
        timed: dict[RankGroup, dict[int, float]] = {}
        for point in compared.points:
            if point.shape.ranks > 1:
                timed.setdefault(point.shape, {})[point.bytes] = point.seconds
        groups = [(group, MEASURED, seconds) for group, seconds in timed.items()]
        further = [count for count in workers if count not in {group.ranks for group in timed}]
        predicted: dict[RankGroup, dict[int, float]] = {}
        for each in predict_collective(compared, further, workers_per_node) if further else ():
            if each.how == REFUSED:
                refused.append(f"{compared.series}: {counted(each.group.ranks, 'worker')}: {each.reason}")
            elif each.seconds:
                predicted.setdefault(each.group, {})[each.bytes] = each.seconds
        groups += [(group, "predicted", seconds) for group, seconds in predicted.items()]
        out += [_least(compared, group, basis, seconds) for group, basis, seconds in groups]
    return tuple(sorted(out, key=lambda each: (each.series, each.group.ranks, each.group.nodes))), tuple(refused)


def least_size_table(
    comparisons: Sequence[CollectiveComparison], least: Sequence[LeastSize], refused: Sequence[str] = ()
) -> Table:
    """One row for each series and group of ranks; counts that were ``refused`` are notes."""
    columns = (
        Column("series", "Series"),
        *columns_of("count", workers="Workers", nodes="Nodes"),
        *columns_of("text", basis="Basis", size="Least size"),
        Column("bytes", "Bytes", "count", detail=True),
        *columns_of("number", "GB/s", bus_gb_s="busbw there", highest_gb_s="Highest busbw"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(each.series, each.group.ranks, each.group.nodes, each.basis),
            *(formatting.size(each.bytes), each.bytes, each.reached / 1e9, each.highest / 1e9),
        )
        for each in least
    ]
    note = f"Least size: the smallest message with {formatting.percent(NEAR, 0)} of the highest bus bandwidth."
    title = f"{subject(comparisons)}: message sizes to send"
    return Table("least_sizes", title, columns, tuple(rows), (note, *refused))


def fastest_table(comparisons: Sequence[CollectiveComparison]) -> Table:
    """The fastest series for each group of ranks and range of sizes; without rows where there is one series."""
    columns = (
        *columns_of("text", collective="Collective"),
        *columns_of("count", workers="Workers", nodes="Nodes"),
        *columns_of("text", first="Sizes from", last="to"),
        *columns_of("count", first_bytes="First", last_bytes="Last"),
        *columns_of("text", series="Fastest", tied="Within noise"),
    )
    columns = tuple(
        Column(c.name, c.title, c.kind, c.unit, detail=True) if c.name.endswith("_bytes") else c for c in columns
    )
    times: dict[tuple[str, RankGroup], dict[int, dict[str, TimedAllReduce]]] = {}
    for compared in comparisons:
        for point in compared.points:
            here = times.setdefault((compared.collective.value, point.shape), {})
            here.setdefault(point.bytes, {})[compared.series] = point
    rows: list[tuple[Cell, ...]] = []
    for (collective, group), sizes in sorted(
        times.items(), key=lambda item: (item[0][0], item[0][1].ranks, item[0][1].nodes)
    ):
        ranges: list[tuple[int, int, str, str]] = []
        for size in sorted(sizes):
            rivals = sizes[size]
            if len(rivals) < 2:
                continue
            ordered = sorted(rivals, key=lambda series: rivals[series].seconds)
            limit = rivals[ordered[0]].seconds * (1 + TIED)
            tied = ", ".join(series for series in ordered[1:] if rivals[series].seconds <= limit)
            if ranges and ranges[-1][2:] == (ordered[0], tied):
                ranges[-1] = (ranges[-1][0], size, ordered[0], tied)
            else:
                ranges.append((size, size, ordered[0], tied))
        rows += [
            (collective, group.ranks, group.nodes, formatting.size(a), formatting.size(b), a, b, series, tied or None)
            for a, b, series, tied in ranges
        ]
    notes = (f"Within noise: less than {formatting.percent(TIED, 0)} slower.",)
    return Table("fastest_series", f"{subject(comparisons)}: fastest series by size", columns, tuple(rows), notes)


def _least(compared: CollectiveComparison, group: RankGroup, basis: str, seconds: dict[int, float]) -> LeastSize:
    factor = compared.collective.bus_factor(group.ranks)
    rates = {size: size / took * factor for size, took in seconds.items()}
    highest = max(rates.values())
    size = min(size for size, rate in rates.items() if rate >= NEAR * highest)
    return LeastSize(compared.series, group, basis, size, rates[size], highest, size == max(rates))
