"""Marks that several plots share: intervals, levels, and the ideal lines, which return the heights that they drew."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes

from scalecurve.curves.results import PointResult, SeriesResult
from scalecurve.reporting.theme import DASHED, FAINT, PAPER, Style
from scalecurve.statistics.estimate import Estimate

Value = Callable[[PointResult], Estimate | None]
_UNCOUNTED = " {} are points that do not count: unproved, reported by the program, or impossible."
_IMPORTED = " {} are imported: measured elsewhere and not checked by ScaleCurve."


def hollow_caption(points: Iterable[PointResult], marks: str = "Hollow marks") -> str:
    """What marks without filling mean among these points; nothing where there are none."""
    kinds = [(bool(p.doubts), p.imported) for p in points]
    uncounted = _UNCOUNTED.format(marks) if any(doubtful for doubtful, _ in kinds) else ""
    return (_IMPORTED.format(marks) if any(imported for _, imported in kinds) else "") + uncounted


def interval_bars(
    axes: Axes,
    bars: Iterable[tuple[float, float | None, float | None]],
    color: str,
    *,
    width: float = 3.4,
    alpha: float = 0.3,
    caps: bool = False,
) -> list[float]:
    """Thick vertical lines for every (x, low, high) that is known; returns the heights that they reach.

    With ``caps`` short lines across the ends show also an interval that is no taller than its mark.
    """
    known = [(x, low, high) for x, low, high in bars if low is not None and high is not None]
    drawn = [(x, low, high) for x, low, high in known if low < high < math.inf]
    if drawn:
        axes.vlines(*zip(*drawn, strict=True), color=color, linewidth=width, alpha=alpha, zorder=2)
    if drawn and caps:
        ends = [(x, end) for x, *sides in drawn for end in sides]
        axes.plot(*zip(*ends, strict=True), "_", color=color, markersize=9, markeredgewidth=1, zorder=4)
    return [end for _, *ends in drawn for end in ends]


def hollow(look: Style) -> dict[str, Any]:
    """How a line of this style marks a point that does not count."""
    return {"mfc": PAPER, "mec": look.color, "mew": 1.6}


def hollow_marks(axes: Axes, places: Sequence[tuple[float, float]], look: Style) -> None:
    """Marks without filling over those of points that do not count."""
    if places:
        axes.plot(*zip(*places, strict=True), look.marker, color=look.color, **hollow(look), zorder=4)


def level_line(axes: Axes, height: float, word: str = "") -> None:
    """A faint dashed line across the panel, and above its left end what it is."""
    axes.axhline(height, color=FAINT, linewidth=1, linestyle=DASHED, zorder=1)
    if word:
        axes.annotate(word, (0, height), (3, 2), axes.get_yaxis_transform(), "offset points", color=FAINT, fontsize=8)


def proportional(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """From the baseline's value up in proportion to the worker count."""
    return _draw_reference_line(axes, series, value, color, lambda count: count / series.baseline)


def inverse_proportional(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """From the baseline's value down in proportion."""
    return _draw_reference_line(axes, series, value, color, lambda count: series.baseline / count)


def diagonal(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """A speed-up of N/N0 at N."""
    low, high = _ends(series)
    heights = [low / series.baseline, high / series.baseline]
    axes.plot([low, high], heights, color=FAINT, linewidth=1, linestyle=DASHED, zorder=1)
    _word(axes, high, heights[1])
    return heights


def hundred(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """An efficiency of 1."""
    level_line(axes, 1)
    _word(axes, _ends(series)[1], 1)
    return [1.0]


def _draw_reference_line(
    axes: Axes, series: SeriesResult, value: Value, color: str, factor: Callable[[int], float]
) -> list[float]:
    base = next((value(p) for p in series.points if p.workers == series.baseline), None)
    low, high = _ends(series)
    if base is None or high == low:
        return []
    heights = [base.value * factor(low), base.value * factor(high)]
    axes.plot([low, high], heights, color=color, linewidth=0.9, alpha=0.6, linestyle=DASHED, zorder=1)
    return heights


def _ends(series: SeriesResult) -> tuple[int, int]:
    counts = [p.workers for p in series.points]
    return min(counts), max(counts)


def _word(axes: Axes, x: float, y: float) -> None:
    """Label the end of an ideal line, once per panel, to the right of the intervals."""
    if not axes.texts:
        axes.annotate("ideal", (x, y), (9, 2), textcoords="offset points", color=FAINT, fontsize=8.5)
