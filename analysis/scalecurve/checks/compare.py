"""Two bundles, point by point: which changed beyond noise, and which by more than a threshold."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle, distinct_labels
from scalecurve.checks.comparability import Difference, differences_between
from scalecurve.render.table import Column, Table
from scalecurve.statistics import Change, Estimate, changes, throughput
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count


@dataclass(frozen=True)
class PointChange:
    """One point that both bundles measured; throughputs in samples/s."""

    point: Point
    before: Estimate
    after: Estimate
    change: Change

    @property
    def verdict(self) -> str:
        """``slower``, ``faster``, ``unchanged within noise``, or ``undecided`` (a single repetition)."""
        if self.change.changed is None:
            return "undecided: only one repetition on one side"
        if not self.change.changed:
            return "unchanged within noise"
        return "slower" if self.change.slower else "faster"


@dataclass(frozen=True)
class Comparison:
    """Changes from ``before`` to ``after``; the lists are points that exist only on one side."""

    before: str
    after: str
    threshold: float
    points: tuple[PointChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def past_threshold(self) -> bool:
        """Whether a point changed by more than the threshold in either direction, beyond noise: exit code 1."""
        return any(p.change.past_threshold for p in self.points)

    def table(self) -> Table:
        return _table(self)


def compare(before: Bundle, after: Bundle, threshold: float = 0.0, level: float = 0.95) -> Comparison:
    """Compare the throughput of the points that both bundles measured, found by series, layout and worker count.

    Raises:
        ValueError: when ``threshold`` is negative or not finite (0.05 is five percent).
    """
    before, after = distinct_labels([before, after])
    first, second = _measured(before), _measured(after)
    shared = [key for key in first if key in second]
    results = changes([(first[key].samples, second[key].samples) for key in shared], level, threshold)
    points = [
        PointChange(
            point=first[key].point,
            before=throughput(first[key].samples, level),
            after=throughput(second[key].samples, level),
            change=change,
        )
        for key, change in zip(shared, results, strict=True)
    ]
    return Comparison(
        before=before.label,
        after=after.label,
        threshold=threshold,
        points=tuple(points),
        only_before=tuple(_name(first[key].point) for key in first if key not in second),
        only_after=tuple(_name(second[key].point) for key in second if key not in first),
        differences=differences_between(before, after),
    )


def _measured(bundle: Bundle) -> dict[tuple[str, int, str], MeasuredPoint]:
    """Measured points by series, worker count and layout, in the order of the curves."""
    return {
        (series.name, p.point.workers, p.point.layout): p
        for series in measure(bundle)
        for p in series.points
        if p.timed
    }


def _name(point: Point) -> str:
    workers = count(point.workers, "worker")
    return f"{point.series}, {workers} ({point.layout})"


def _table(comparison: Comparison) -> Table:
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("before", "Before", "number", "/s", interval=True),
        Column("after", "After", "number", "/s", interval=True),
        Column("ratio", "After / before", "percent", interval=True),
        Column("adjusted_p", "p (Holm)", "number"),
        Column("verdict", "Verdict"),
        Column("past_threshold", "Exceeds threshold", "flag"),
    )
    rows = tuple(
        (
            p.point.series,
            p.point.workers,
            p.point.layout,
            p.before,
            p.after,
            p.change.ratio,
            p.change.adjusted_p,
            p.verdict,
            p.change.past_threshold,
        )
        for p in comparison.points
    )
    title = f"{comparison.before} → {comparison.after}"
    return Table("compare", title, columns, rows, tuple(_notes(comparison)))


def _notes(comparison: Comparison) -> list[str]:
    notes = [f"Threshold {comparison.threshold * 100:g} %, and only changes beyond noise."]
    notes += _missing("before", comparison.only_before) + _missing("after", comparison.only_after)
    notes += [f"{d.what} differs: {d.spelled()}" for d in comparison.differences]
    return notes


def _missing(side: str, names: Sequence[str]) -> list[str]:
    return [f"Measured {side} only: {'; '.join(names)}."] if names else []
