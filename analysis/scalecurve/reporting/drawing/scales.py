"""Vertical axes of the curves: log for amounts, log2 for speed-up, linear for efficiency; from the heights drawn."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from scalecurve.curves.results import SeriesResult
from scalecurve.render import formatting
from scalecurve.reporting.drawing import axis
from scalecurve.reporting.drawing.views import form
from scalecurve.statistics.estimate import Estimate

_FARTHEST = 3.0


def ends(estimate: Estimate) -> list[float]:
    """The heights of an estimate: its value and the ends of its interval."""
    return [side for side in (estimate.value, estimate.low, estimate.high) if side is not None]


def in_sight(estimates: Sequence[Estimate]) -> tuple[list[float], bool]:
    """The heights that an axis must show, and whether an interval extends beyond it.

    No interval stretches the axis to more than ``_FARTHEST`` times the values: the curve itself would lie flat.
    """
    values = [estimate.value for estimate in estimates]
    low, high = min(values) / _FARTHEST, max(values) * _FARTHEST
    sides = [side for estimate in estimates for side in ends(estimate)]
    return [min(max(side, low), high) for side in sides], any(not low <= side <= high for side in sides)


def log_scale(axes: Axes, shown: Sequence[SeriesResult], heights: Sequence[float]) -> None:
    """Log scale for an amount: only ratios matter."""
    positive = [height for height in heights if height > 0 and math.isfinite(height)]
    axis.log_axis(axes, "y", min(positive), max(positive), axis.short)


def ratio_scale(axes: Axes, shown: Sequence[SeriesResult], heights: Sequence[float]) -> None:
    """A speed-up: as many octaves as the worker counts have, ticks where ideal points would be."""
    ratios = sorted({p.workers / series.baseline for series in shown for p in series.points})
    low, high = min(*heights, ratios[0]), max(*heights, ratios[-1])
    ticks = ratios if 3 <= len(ratios) <= axis.MOST_TICKS else axis.round_ticks(low, high * 2**0.35)
    if form().linear:
        axes.set_ylim(0, high * 1.08)
        ticks = axis.linear_ticks(0, high * 1.08)
    else:
        axes.set_yscale("log", base=2)
        axes.set_ylim(low / 2**0.35, high * 2**0.35)
    axis.fixed_ticks(axes, "y", ticks, [f"{axis.short(tick)}×" for tick in ticks])


def percent_scale(axes: Axes, shown: Sequence[SeriesResult], heights: Sequence[float]) -> None:
    """Linear scale for an efficiency, always including 100 %."""
    low = min(0.8, max(0.0, math.floor((min(heights) - 0.05) * 10) / 10))
    axis.linear_axis(axes, "y", low, max(1.05, max(heights) + 0.03), lambda share: formatting.percent(share, 0))
