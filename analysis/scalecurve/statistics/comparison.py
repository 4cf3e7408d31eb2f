"""Has a point changed beyond noise? Tests of the ratio of two throughputs, over any number of points at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.intervals import LogRatio, Point, log_ratio, ratio


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one point.

    `ratio` is throughput now over throughput before, its interval for this point alone. `p_value` is two-sided and
    for this point alone, `adjusted_p` after Holm over all points compared together. `changed` is None, undecided,
    unless both sides have two repetitions or more: the spread of windows within a run cannot tell a change from the
    difference between any two runs. `past_threshold` needs a change and a ratio at least `threshold` away from 1.
    """

    ratio: Estimate
    p_value: float | None
    adjusted_p: float | None
    changed: bool | None
    threshold: float
    past_threshold: bool

    @property
    def slower(self) -> bool:
        """Whether the point estimate fell, changed or not."""
        return self.ratio.value < 1


def changed(before: Point, after: Point, level: float = 0.95, threshold: float = 0.0) -> Change:
    """One point compared with itself at another time; `changes` is for several. Raises ValueError as it does."""
    return changes([(before, after)], level, threshold)[0]


def changes(pairs: Sequence[tuple[Point, Point]], level: float = 0.95, threshold: float = 0.0) -> list[Change]:
    """(before, after) of every point two bundles share → what changed, in the same order.

    Welch's t on the log ratio gives each point's p value. Over the points S. Holm's step-down correction is used
    (Scandinavian Journal of Statistics 6, 1979) and not Benjamini-Hochberg: the answer is a gate (an exit code), so
    the chance of even one false alarm in a whole comparison is what must stay below 1 - level; Holm promises that
    whatever the dependence between points of one machine, and points are few. Undecided points are not counted.

    `threshold` is relative (0.05: five percent) and applies to the point estimate, faster or slower; 0 accepts any
    change beyond noise. Raises ValueError for a negative or infinite threshold and as `ratio` does.
    """
    if not (math.isfinite(threshold) and threshold >= 0):
        raise ValueError(f"threshold must be a finite fraction of at least 0, got {threshold!r}")
    ratios = [ratio(after, before, level) for before, after in pairs]
    p_values = [p_value(log_ratio(after, before)) for before, after in pairs]
    decidable = [p if estimate.method is Method.WELCH else None for p, estimate in zip(p_values, ratios, strict=True)]
    return [
        _change(estimate, p, adjusted, level, threshold)
        for estimate, p, adjusted in zip(ratios, p_values, holm(decidable), strict=True)
    ]


def p_value(log_ratio: LogRatio) -> float | None:
    """Two-sided p of "the ratio is 1"; None without a spread. Without any scatter it is 0 or 1."""
    from scipy.special import stdtr  # late for the sake of a quick start

    if log_ratio.spread is None:
        return None
    if log_ratio.spread.variance == 0:
        return 1.0 if log_ratio.value == 0 else 0.0
    return float(2 * stdtr(log_ratio.spread.degrees, -abs(log_ratio.value) / math.sqrt(log_ratio.spread.variance)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p values, in the same order: each may be held against 1 - level directly. None stays None."""
    order = sorted(((p, index) for index, p in enumerate(p_values) if p is not None))
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[index] = largest
    return adjusted


def _change(estimate: Estimate, p: float | None, adjusted: float | None, level: float, threshold: float) -> Change:
    beyond_noise = None if adjusted is None else adjusted <= 1 - level
    past = bool(beyond_noise) and abs(estimate.value - 1) >= threshold
    return Change(estimate, p, adjusted, beyond_noise, threshold, past)
