"""Ideal lines: the curve if every worker added as much as the first. Each returns the heights it drew."""

from collections.abc import Callable

from matplotlib.axes import Axes

from scalecurve.curves.results import PointResult, SeriesResult
from scalecurve.reporting import theme
from scalecurve.reporting.drawing import marks
from scalecurve.statistics import Estimate

Value = Callable[[PointResult], Estimate | None]


def proportional(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """From the baseline's value up in proportion to the worker count."""
    return _from_base(axes, series, value, color, lambda count: count / series.baseline)


def inverse_proportional(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """From the baseline's value down in proportion."""
    return _from_base(axes, series, value, color, lambda count: series.baseline / count)


def diagonal(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """A speed-up of N/N0 at N."""
    low, high = _ends(series)
    heights = [low / series.baseline, high / series.baseline]
    axes.plot([low, high], heights, color=theme.FAINT, linewidth=1, linestyle=theme.DASHED, zorder=1)
    _word(axes, high, heights[1])
    return heights


def hundred(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """An efficiency of 1."""
    marks.level_line(axes, 1)
    _word(axes, _ends(series)[1], 1)
    return [1.0]


def _from_base(
    axes: Axes, series: SeriesResult, value: Value, color: str, factor: Callable[[int], float]
) -> list[float]:
    base = next((value(p) for p in series.points if p.workers == series.baseline), None)
    low, high = _ends(series)
    if base is None or high == low:
        return []
    heights = [base.value * factor(low), base.value * factor(high)]
    axes.plot([low, high], heights, color=color, linewidth=0.9, alpha=0.6, linestyle=theme.DASHED, zorder=1)
    return heights


def _ends(series: SeriesResult) -> tuple[int, int]:
    counts = [p.workers for p in series.points]
    return min(counts), max(counts)


def _word(axes: Axes, x: float, y: float) -> None:
    """Label the end of an ideal line, once per panel, to the right of the intervals."""
    if not axes.texts:
        axes.annotate("ideal", (x, y), (9, 2), textcoords="offset points", color=theme.FAINT, fontsize=8.5)
