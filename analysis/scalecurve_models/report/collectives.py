"""Models of collectives against measurements: time over the message size, and the error at left-out sizes."""

import numpy as np
from matplotlib.axes import Axes

from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, Style, axis, first, level_line, style
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.text import count
from scalecurve_models.collectives.comparison import CollectiveComparison
from scalecurve_models.collectives.costs import RankGroup
from scalecurve_models.collectives.tables import selected as chosen
from scalecurve_models.report.model_results import model_results

MOST_SERIES = 6
_GRID = 200


@plot("allreduce-models", section="allreduce-models", order=10)
def collectives(analysis: Analysis) -> Drawing | None:
    """A row of two panels for each series that could be fitted."""
    shown, omitted = first(analysis.once(model_results).collectives, MOST_SERIES, "series")
    if not shown:
        return None
    shapes = list(dict.fromkeys(point.shape for each in shown for point in each.points))
    shapes.sort(key=lambda shape: (shape.ranks, shape.nodes))
    looks = {shape: style(index) for index, shape in enumerate(shapes)}
    sheet = Sheet(2 * len(shown), [_label(shape) for shape in shapes])
    for index, each in enumerate(shown):
        left, right = sheet.panels[2 * index : 2 * index + 2]
        name = chosen(each).fit.algorithm.name
        sheet.handles |= _times(left, each, looks)
        _errors(right, each, looks)
        left.set_title(f"{each.series}: {name}" if len(shown) > 1 else name, loc="left")
        right.set_title("error at left-out sizes", loc="left")
        sizes = [point.bytes for point in each.points]
        for panel in (left, right):
            axis.message_axis(panel, sizes)
    caption = (
        "Left: marks are measured medians, lines are the fitted model. Right: predicted/measured - 1, with each size "
        "predicted by a fit to the other sizes. The algorithm is the requested one, else that with the lowest error, "
        "else the ring."
    )
    sums = all(each.collective is Collective.all_reduce for each in shown)
    return sheet.drawing(f"{'All-reduce' if sums else 'Collectives'}: model vs. measured", caption + omitted)


def _times(axes: Axes, comparison: CollectiveComparison, looks: dict[RankGroup, Style]) -> dict[str, object]:
    model = chosen(comparison)
    handles: dict[str, object] = {}
    heights = []
    for shape, look in looks.items():
        points = sorted((p.bytes, p.seconds * 1e6) for p in comparison.points if p.shape == shape)
        if not points:
            continue
        (handles[_label(shape)],) = axes.plot(
            *zip(*points, strict=True),
            color=look.color,
            marker=look.marker,
            linestyle="none",
            markersize=3.6,
            label=_label(shape),
        )
        grid = np.geomspace(points[0][0], points[-1][0], _GRID)
        times = [model.fit.seconds(shape, float(size)) * 1e6 for size in grid]
        axes.plot(grid, times, color=look.color, linewidth=1.1)
        heights += [time for _, time in points] + [time for time in times if time > 0]
    axis.log_axis(axes, "y", min(heights), max(heights), lambda us: formatting.seconds(us / 1e6))
    axes.set_ylabel("Time")
    return handles


def _errors(axes: Axes, comparison: CollectiveComparison, looks: dict[RankGroup, Style]) -> None:
    heights = [0.05, -0.05]
    for shape, look in looks.items():
        points = sorted(
            (left.point.bytes, left.error) for left in chosen(comparison).by_size if left.point.shape == shape
        )
        if points:
            axes.plot(*zip(*points, strict=True), color=look.color, marker=look.marker, linewidth=0.9, markersize=3.6)
            heights += [error for _, error in points]
    level_line(axes, 0)
    low, high = max(-1.0, min(heights)), min(3.0, max(heights))
    axis.linear_axis(axes, "y", low * 1.1, high * 1.1, lambda value: f"{round(value * 100, 1):g} %")


def _label(shape: RankGroup) -> str:
    return count(shape.ranks, "worker") + (f" on {count(shape.nodes, 'node')}" if shape.nodes > 1 else "")
