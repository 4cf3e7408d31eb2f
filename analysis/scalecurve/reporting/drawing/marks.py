"""Marks that several plots share."""

from collections.abc import Iterable

from matplotlib.axes import Axes

from scalecurve.reporting.theme import DASHED, FAINT


def interval_bars(
    axes: Axes,
    bars: Iterable[tuple[float, float | None, float | None]],
    color: str,
    *,
    width: float = 3.4,
    alpha: float = 0.3,
) -> list[float]:
    """Thick vertical lines for every (x, low, high) with a width; returns the heights that they reach."""
    drawn = [(x, low, high) for x, low, high in bars if low is not None and high is not None and low < high]
    if drawn:
        axes.vlines(*zip(*drawn, strict=True), color=color, linewidth=width, alpha=alpha, zorder=2)
    return [end for _, *ends in drawn for end in ends]


def level_line(axes: Axes, height: float) -> None:
    """A faint dashed line across the panel."""
    axes.axhline(height, color=FAINT, linewidth=1, linestyle=DASHED, zorder=1)
