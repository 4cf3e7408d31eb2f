"""Where a step's time goes: compute and exposed communication, stacked, a panel for each series."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from scalecurve.curves.results import PointResult, SeriesResult
from scalecurve.curves.series_matching import side_by_side
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, theme
from scalecurve.reporting.drawing.marks import hollow_caption
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot

MOST_PANELS = 8
MOST_INTERVALS = 5  # bars of one panel that have room for an interval above
_LINE = 0.06  # of the panel that a line of text over a bar takes
COMPUTE, EXPOSED, WHOLE = theme.PALETTE[5], theme.PALETTE[1], theme.GRID
_CAPTION = (
    "Mean step of the timed windows. Exposed communication is the step time saved by removing the all-reduce, "
    "measured in alternating windows of the same trials; bars are its intervals. Above stands its share of the step."
)

_TRACED = " With the method profiler-pass it is the share of traced steps in which only communication ran."


@plot("split", section="time", order=10)
def breakdown(analysis: Analysis) -> Drawing | None:
    """The stacked bars, where the exposed communication of any point was measured."""
    series_shown = [series for series in analysis.curves.series if any(p.exposed_s for p in series.points)]
    if not series_shown:
        return None
    shown, omitted = first(side_by_side(series_shown), MOST_PANELS, "series")
    several = len(analysis.bundles) > 1
    sheet = Sheet(len(shown), legend_rows=1)
    for panel, series in zip(sheet.panels, shown, strict=True):
        sheet.handles |= _panel(panel, series)
    sheet.name_panels([series.name for series in shown], [f"{series.bundle}: " if several else "" for series in shown])
    caption = (
        _CAPTION
        + (_TRACED if _has_profiler_pass(analysis) else "")
        + hollow_caption((p for series in shown for p in series.points), "Bars without filling")
    )
    return sheet.drawing("Compute and exposed communication", caption + omitted)


def _has_profiler_pass(analysis: Analysis) -> bool:
    summaries = (t.record.summary for bundle in analysis.bundles for t in bundle.trials if t.good and t.record)
    return any(each and each.exposed and each.exposed.method == "profiler-pass" for each in summaries)


def _panel(axes: Axes, series: SeriesResult) -> dict[str, object]:
    points = [p for p in series.points if p.step_s is not None]
    places = list(range(len(points)))
    bars = [_parts(p) for p in points]
    top = max(sum(part) for part in bars)
    factor, unit = (1e3, "ms") if top < 1 else (1, "s")
    handles: dict[str, object] = {}
    floor = [0.0] * len(points)
    looks = (("compute", COMPUTE, ""), ("exposed communication", EXPOSED, "////"), ("full step", WHOLE, ""))
    for index, (label, color, hatch) in enumerate(looks):
        heights = [part[index] * factor for part in bars]
        if any(heights):
            drawn = axes.bar(
                places, heights, 0.62, bottom=floor, color=color, hatch=hatch, edgecolor=theme.PAPER, linewidth=0.6
            )
            handles[label] = drawn
            drawn.set_label(label)
            for bar in (bar for bar, p in zip(drawn, points, strict=True) if p.marks):
                bar.set(facecolor=theme.PAPER, edgecolor=color, linewidth=1.2)
        floor = [base + height for base, height in zip(floor, heights, strict=True)]
    _interval_bars(axes, points, factor)
    shares = [_share(p, len(points)) for p in points]
    for place, share in ((place, share) for place, share in zip(places, shares, strict=True) if share):
        axes.text(place, floor[place] + top * factor * 0.02, share, ha="center", va="bottom", fontsize=8)
    lines = max(share.count("\n") for share in shares)
    axis.linear_axis(axes, "y", 0, top * factor * max(1.2, 1.12 + _LINE * lines), axis.short)
    axis.fixed_ticks(axes, "x", places, [str(p.workers) for p in points])
    axis.category_limits(axes, len(points))
    axes.set_xlabel("Workers")
    axes.set_ylabel(f"Step ({unit})")
    return handles


def _share(p: PointResult, count: int) -> str:
    """What stands on the bar of a point, one among so many: the exposed share, and its interval in few panels."""
    if p.exposed_share is None or p.exposed_share.value <= 0:
        return ""
    value, interval = formatting.parted(p.exposed_share, as_percent=True)
    if not interval or count > MOST_INTERVALS:
        return value
    return f"{value}\n{axis.folded(formatting.label_interval(interval), max(12, 44 // max(count, 2)))}"


def _parts(p: PointResult) -> tuple[float, float, float]:
    """(compute, exposed, undivided) in seconds; a single worker has no communication."""
    assert p.step_s is not None
    if p.exposed_s is None or p.compute_s is None:
        return (p.step_s.value, 0.0, 0.0) if p.workers == 1 else (0.0, 0.0, p.step_s.value)
    exposed = max(0.0, p.exposed_s.value)
    return p.step_s.value - exposed, exposed, 0.0


def _interval_bars(axes: Axes, points: Sequence[PointResult], factor: float) -> None:
    lines = []
    for place, p in enumerate(points):
        if p.step_s and p.exposed_s and p.exposed_s.low is not None and p.exposed_s.high is not None:
            step, sides = p.step_s.value, (p.exposed_s.high, p.exposed_s.low)
            lines.append((place, *(min(step, max(0.0, step - side)) * factor for side in sides)))
    if lines:
        axes.vlines(*zip(*lines, strict=True), color=theme.INK, linewidth=1.1, zorder=3)
