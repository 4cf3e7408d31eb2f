"""Step time by rank: the distribution of each rank, and which one is slow."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.bundle.step_summary import StepSummaries, StepSummary
from scalecurve.bundle.steps import QUANTILES
from scalecurve.curves.series_matching import side_by_side
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, theme
from scalecurve.reporting.drawing.marks import hollow_caption
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

MOST_PANELS = 8
MOST_BOXES = 32
_LEGEND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("5 to 95 %", {"color": theme.PALETTE[0], "linewidth": 1.2}),
    ("25 to 75 %", {"color": theme.PALETTE[0], "linewidth": 7, "alpha": 0.55}),
    ("median", {"color": theme.INK, "linewidth": 1.6}),
    ("99 %", {"color": theme.PALETTE[0], "linestyle": "none", "marker": "."}),
    ("slowest rank's median", {"color": theme.PALETTE[1], "linewidth": 1, "linestyle": theme.DASHED}),
)
_P5, _P25, _P50, _P75, _P95, _P99 = (QUANTILES.index(q) for q in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99))


@plot("step-times", section="time", order=20)
def step_times(analysis: Analysis) -> Drawing | None:
    """The distributions at the largest measured worker count of each series."""
    several = len({series.bundle for series in analysis.measured}) > 1
    chosen = [(series, _choose(series, analysis.step_summaries)) for series in side_by_side(analysis.measured)]
    shown, omitted = first([(series, *choice) for series, choice in chosen if choice], MOST_PANELS, "series")
    if not shown:
        return None
    sheet = Sheet(len(shown), [label for label, _ in _LEGEND])
    sheet.handles |= {label: Line2D([], [], label=label, **look) for label, look in _LEGEND}
    results = [analysis.result_of(series.bundle, series.name, point) for series, point, _ in shown]
    for axes, (_, _, summary), result in zip(sheet.panels, shown, results, strict=True):
        _draw(axes, summary, bool(result.doubts))
    sheet.name_panels(
        [series.name for series, _, _ in shown],
        [f"{series.bundle}: " if several else "" for series, _, _ in shown],
        [f", {count(point.workers, 'worker')}" for _, point, _ in shown],
    )
    caption = (
        "The median repetition at the largest worker count. For each rank's timed steps: line 5 to 95 %, box 25 to "
        "75 %, bar median, dot 99 %; the dashed line is the median of the slowest rank."
    )
    return sheet.drawing("Step time by rank", caption + hollow_caption(results) + omitted)


def _choose(series: MeasuredSeries, summaries: StepSummaries) -> tuple[Point, StepSummary] | None:
    """The largest measured worker count, and its repetition of (lower) median throughput."""
    for point in reversed(series.points):
        trials = [
            (record.summary.throughput if record.summary else 0.0, trial.name)
            for trial in point.trials
            if trial.good and (record := trial.record) and (series.bundle, trial.name) in summaries.of
        ]
        if trials:
            _, name = sorted(trials)[(len(trials) - 1) // 2]
            return point.point, summaries.of[series.bundle, name]
    return None


def _draw(axes: Axes, summary: StepSummary, doubtful: bool) -> None:
    factor, unit = (1e3, "ms") if summary.slowest[_P99] < 1 else (1, "s")
    axes.set_ylabel(f"Step ({unit})")
    p5, p25, p50, p75, p95, p99 = (
        [rank[quantile] * factor for rank in summary.ranks] for quantile in (_P5, _P25, _P50, _P75, _P95, _P99)
    )
    ranks, color = range(len(summary.ranks)), theme.PALETTE[0]
    if boxes := len(ranks) <= MOST_BOXES:
        axes.vlines(ranks, p5, p95, color=color, linewidth=1.2, zorder=2)
        thick = max(2.0, min(14.0, 150 / len(ranks)))
        axes.vlines(ranks, p25, p75, color=color, linewidth=thick, alpha=0.55, zorder=2)
        if doubtful:
            axes.vlines(ranks, p25, p75, color=theme.PAPER, linewidth=max(1.0, thick - 2), zorder=2)
        half = min(0.36, 0.012 * thick * max(4, len(ranks)) / 4)
        axes.hlines(p50, [r - half for r in ranks], [r + half for r in ranks], color=theme.INK, linewidth=1.6)
        axes.plot(ranks, p99, ".", color=color, markersize=4, mfc=theme.PAPER if doubtful else color)
    else:
        axes.fill_between(ranks, p5, p95, color=color, alpha=0.2, linewidth=0)
        axes.fill_between(ranks, p25, p75, color=color, alpha=0 if doubtful else 0.4, linewidth=0)
        axes.plot(ranks, p50, color=theme.INK, linewidth=1.2)
    slowest = summary.slowest[_P50] * factor
    axes.axhline(slowest, color=theme.PALETTE[1], linewidth=1, linestyle=theme.DASHED, zorder=1)
    low, high = min(p5), max(p99 if boxes else p95)
    air = max((high - low) * 0.08, high * 0.01)
    axis.linear_axis(axes, "y", max(0.0, low - air), max(high, slowest) + air, axis.short)
    ticks = ranks[:: max(1, -(-len(ranks) // 8))]
    axis.fixed_ticks(axes, "x", ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("Rank")
    if boxes:
        axis.category_limits(axes, len(ranks))
    else:
        axes.set_xlim(0, len(ranks) - 1)
