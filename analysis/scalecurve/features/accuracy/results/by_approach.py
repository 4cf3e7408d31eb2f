"""Which training is the most accurate, which others are tied with it, and how far behind the rest are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scalecurve.features.accuracy.results.outcome import PointTraining, format_axis_value
from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.spread import student_quantile
from scalecurve_api.text import count

AXIS = "transfer.train"
_MOST_NAMED = 3


@dataclass(frozen=True)
class Contest:
    """Series of one experiment, mode and worker count; ``tied`` are those that are not separable from the ``best``."""

    best: PointTraining
    tied: tuple[PointTraining, ...]
    others: tuple[PointTraining, ...]

    @property
    def every(self) -> tuple[PointTraining, ...]:
        return self.best, *self.tied, *self.others

    def spelled(self, names: Mapping[tuple[str, str], str], workers: bool) -> str:
        """Spell the winner, and what is tied with it; ``names`` are by (experiment, series)."""

        def name(p: PointTraining) -> str:
            return f"{names[p.bundle, p.series]}, {formatting.interval(p.final, as_percent=True)}"

        at = f" on {count(self.best.point.workers, 'worker')}" if workers else ""
        runs = {len(p.runs) for p in self.every}
        each = f", means of {count(max(runs), 'repetition')}" if len(runs) == 1 and max(runs) > 1 else ""
        first = f"Most accurate of {len(self.every)}{at}{each}: {name(self.best)}"
        if not self.tied:
            return first
        named = "; ".join(map(name, self.tied[: _MOST_NAMED - 1]))
        more = f"; and {len(self.tied) + 1 - _MOST_NAMED} more" if len(self.tied) >= _MOST_NAMED else ""
        why = "tied with" if min(runs) > 1 else "not separable, in single runs, from"
        return f"{first}; {why} {named}{more}"


def contests(points: Sequence[PointTraining]) -> tuple[Contest, ...]:
    """Return one for each experiment and mode, at the largest worker count that several series have."""
    groups: dict[tuple[str, str, int], list[PointTraining]] = {}
    for p in sorted(points, key=lambda p: p.point.workers):
        groups.setdefault((p.bundle, p.point.mode.value, p.point.workers), []).append(p)
    largest = {key[:2]: group for key, group in groups.items() if len({p.series for p in group}) > 1}
    return tuple(map(contest, largest.values()))


def contest(group: Sequence[PointTraining]) -> Contest:
    """Compare each with the best, over their repetitions; single runs cannot be told apart."""
    best, *rest = sorted(group, key=lambda p: -p.final.value)
    behind = {p.series: difference(finals(best), finals(p), p.level).low for p in rest}
    tied = tuple(p for p in rest if (low := behind[p.series]) is None or low <= 0)
    return Contest(best, tied, tuple(p for p in rest if p not in tied))


def approach_table(points: Sequence[PointTraining]) -> Table:
    """Tabulate each approach (``transfer.train``) and rate of every worker count at which several were run."""
    groups: dict[tuple[str, str, int], list[PointTraining]] = {}
    for p in points:
        if AXIS in p.point.axes:
            groups.setdefault((p.bundle, p.point.mode.value, p.point.workers), []).append(p)
    compared = [group for group in groups.values() if len({p.point.axes[AXIS] for p in group}) > 1]
    others = list(dict.fromkeys(axis for group in compared for p in group for axis in p.point.axes if axis != AXIS))
    columns = (
        Column("workers", "Workers", "count"),
        Column("approach", "Trained"),
        *(Column(axis, axis.rpartition(".")[2]) for axis in others),
        Column("runs", "Runs", "count"),
        Column("final_accuracy", "Final accuracy", "percent", interval=True),
        Column("behind", "Behind the best", "percent", interval=True),
        Column("place", "Rank"),
        Column("throughput", "Throughput", "number", "samples/s", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for group in compared:
        winner = max(group, key=lambda p: p.final.value)
        behinds = {p.series: difference(finals(winner), finals(p), p.level) for p in group if p is not winner}
        best = "highest, not separable" if any(map(_is_tied, behinds.values())) else "winner"
        for p in group:
            axes = [format_axis_value(p.point.axes[axis]) if axis in p.point.axes else None for axis in others]
            behind = behinds.get(p.series)
            place = best if behind is None else _place(p, group, behind)
            rows.append(
                (p.point.workers, str(p.point.axes[AXIS]), *axes, len(p.runs), p.final, behind, place, p.throughput)
            )
    notes = (
        "The best approach has the highest mean accuracy after the last epoch; picking the best of many is slightly "
        "optimistic. Behind the best is a difference of means with Welch's interval over repetitions; where it "
        "includes zero the two are tied.",
    )
    return Table("approaches", "Final accuracy by approach", columns, tuple(rows), notes if rows else ())


def difference(first: Sequence[float], second: Sequence[float], level: float) -> Estimate:
    """Estimate mean(first) - mean(second) with Welch's interval; none where one has a single value or all are equal."""
    value, least = fmean(first) - fmean(second), min(len(first), len(second))
    if least < 2:
        return Estimate(value, None, None, level, Method.NONE, least)
    shares = [variance(values) / len(values) for values in (first, second)]
    if sum(shares) == 0:
        return Estimate(value, value, value, level, Method.WELCH, least)
    parts = [share**2 / (len(values) - 1) for share, values in zip(shares, (first, second), strict=True)]
    degrees = sum(shares) ** 2 / sum(parts)
    half = student_quantile(degrees, level) * math.sqrt(sum(shares))
    return Estimate(value, value - half, value + half, level, Method.WELCH, least)


def finals(p: PointTraining) -> list[float]:
    """Return the accuracy of each run after its last epoch."""
    return [run[-1].accuracy for run in p.runs]


def _is_tied(behind: Estimate) -> bool:
    return behind.low is not None and behind.low <= 0


def _place(p: PointTraining, points: Sequence[PointTraining], behind: Estimate) -> str | None:
    remarks = []
    same_approach = [other for other in points if other.point.axes[AXIS] == p.point.axes[AXIS]]
    if len(same_approach) > 1 and p is max(same_approach, key=lambda other: other.final.value):
        remarks.append("best of its approach")
    if _is_tied(behind):
        remarks.append("tied with the best")
    return ", ".join(remarks) or None
