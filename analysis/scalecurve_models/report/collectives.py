"""Models of the all-reduce against its measurement: time over the message size, and the error at left-out sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalecurve.render import formatting
from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve_models.collectives.comparison import CollectiveComparison
from scalecurve_models.collectives.costs import RankGroup
from scalecurve_models.collectives.tables import selected as chosen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SERIES = 4
_GRID = 200


def collectives(comparisons: Sequence[CollectiveComparison], png: bool) -> Iterator[Plot]:
    """A row of two panels for each series that could be fitted."""
    if not comparisons:
        return
    shown = comparisons[:MOST_SERIES]
    shapes = list(dict.fromkeys(point.shape for each in shown for point in each.points))
    shapes.sort(key=lambda shape: (shape.ranks, shape.nodes))
    looks = {shape: canvas.style(index) for index, shape in enumerate(shapes)}
    labels = [_label(shape) for shape in shapes]
    columns, rows = canvas.legend_shape(labels, canvas.figure_width(2, 2))
    figure, panels = canvas.panels(2 * len(shown), 2, rows)
    handles: dict[RankGroup, object] = {}
    for index, each in enumerate(shown):
        left, right = panels[2 * index : 2 * index + 2]
        name = chosen(each).fit.algorithm.name
        handles |= _times(left, each, looks)
        _errors(right, each, looks)
        left.set_title(f"{each.series}: {name}" if len(shown) > 1 else name, loc="left")
        right.set_title("error at left-out sizes", loc="left")
        sizes = [point.bytes for point in each.points]
        for panel in (left, right):
            _sizes_axis(panel, sizes)
    canvas.legend(figure, [handles[shape] for shape in shapes], columns)
    more = len(comparisons) - len(shown)
    caption = (
        "Left: marks are measured medians, lines are the fitted model. Right: predicted over measured less one, every "
        "size predicted by a fit to the other sizes. The model is of the algorithm that was asked for, else the one "
        "with the smallest error there, or the ring where the points cannot tell."
    )
    caption += f" The first {MOST_SERIES} series; {more} more are in the table." if more else ""
    yield canvas.finish(figure, "allreduce-models", "All-reduce: model beside measurement", caption, png)


def _times(
    axes: Axes, comparison: CollectiveComparison, looks: dict[RankGroup, canvas.Style]
) -> dict[RankGroup, object]:
    judged = chosen(comparison)
    handles: dict[RankGroup, object] = {}
    heights = []
    for shape, look in looks.items():
        points = sorted((p.bytes, p.seconds * 1e6) for p in comparison.points if p.shape == shape)
        if not points:
            continue
        (handles[shape],) = axes.plot(
            *zip(*points, strict=True),
            color=look.color,
            marker=look.marker,
            linestyle="none",
            markersize=3.6,
            label=_label(shape),
        )
        grid = np.geomspace(points[0][0], points[-1][0], _GRID)
        times = [judged.fit.seconds(shape, float(size)) * 1e6 for size in grid]
        axes.plot(grid, times, color=look.color, linewidth=1.1)
        heights += [time for _, time in points] + [time for time in times if time > 0]
    axis.log_axis(axes, "y", min(heights), max(heights), lambda us: formatting.seconds(us / 1e6))
    axes.set_ylabel("Time")
    return handles


def _errors(axes: Axes, comparison: CollectiveComparison, looks: dict[RankGroup, canvas.Style]) -> None:
    heights = [0.05, -0.05]
    for shape, look in looks.items():
        points = sorted(
            (left.point.bytes, left.error) for left in chosen(comparison).by_size if left.point.shape == shape
        )
        if points:
            axes.plot(*zip(*points, strict=True), color=look.color, marker=look.marker, linewidth=0.9, markersize=3.6)
            heights += [error for _, error in points]
    axes.axhline(0, color=canvas.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    low, high = max(-1.0, min(heights)), min(3.0, max(heights))
    axis.linear_axis(axes, "y", low * 1.1, high * 1.1, lambda value: f"{round(value * 100, 1):g} %")


def _sizes_axis(axes: Axes, sizes: Sequence[int]) -> None:
    counts = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    axes.set_xlim(counts[0] / 2**0.6, counts[-1] * 2**0.6)
    ticks = axis.thinned(counts, 6)
    axis.fixed_ticks(axes, "x", ticks, [formatting.size(tick) for tick in ticks])
    axes.set_xlabel("Message")


def _label(shape: RankGroup) -> str:
    return f"{shape.ranks} workers" + (f" on {shape.nodes} nodes" if shape.nodes > 1 else "")
