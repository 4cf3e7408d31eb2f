"""Step time by rank: the distribution of each rank, and which one is slow."""

from dataclasses import dataclass

from matplotlib.axes import Axes

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.bundle.step_summary import Digests, StepDigest
from scalecurve.bundle.steps import QUANTILES
from scalecurve.curves.series_matching import side_by_side
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, theme
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve_api.text import count

MOST_PANELS = 8
MOST_BOXES = 32
_P5, _P25, _P50, _P75, _P95, _P99 = (QUANTILES.index(q) for q in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99))


@dataclass(frozen=True)
class _Panel:
    before: str
    series: str
    after: str
    digest: StepDigest


@plot("step-times", section="time", order=20)
def step_times(findings: Findings) -> Drawing | None:
    """The distributions at the largest measured worker count of each series."""
    several = len({series.bundle for series in findings.measured}) > 1
    chosen = [_choose(series, findings.digests, several) for series in side_by_side(findings.measured)]
    shown, left_out = first([panel for panel in chosen if panel], MOST_PANELS, "series")
    if not shown:
        return None
    sheet = Sheet(len(shown))
    for axes, panel in zip(sheet.panels, shown, strict=True):
        (_boxes if len(panel.digest.ranks) <= MOST_BOXES else _band)(axes, panel.digest)
    sheet.name_panels([p.series for p in shown], [p.before for p in shown], [p.after for p in shown])
    caption = (
        "The median repetition at the largest worker count. For each rank's timed steps: line 5 to 95 %, box 25 to "
        "75 %, bar median, dot 99 %; the dashed line is the median of the slowest rank."
    )
    return sheet.drawing("Step time by rank", caption + left_out)


def _choose(series: MeasuredSeries, digests: Digests, several: bool) -> _Panel | None:
    """The largest measured point's repetition of (lower) median throughput."""
    for point in reversed(series.points):
        trials = [
            (record.summary.throughput if record.summary else 0.0, trial.name)
            for trial in point.trials
            if trial.good and (record := trial.record) and (series.bundle, trial.name) in digests.of
        ]
        if trials:
            _, name = sorted(trials)[(len(trials) - 1) // 2]
            before = f"{series.bundle}: " if several else ""
            return _Panel(
                before, series.name, f", {count(point.point.workers, 'worker')}", digests.of[series.bundle, name]
            )
    return None


def _boxes(axes: Axes, digest: StepDigest) -> None:
    factor = _unit(axes, digest)
    rows = [[value * factor for value in rank] for rank in digest.ranks]
    places = list(range(len(rows)))
    color = theme.PALETTE[0]
    axes.vlines(places, [r[_P5] for r in rows], [r[_P95] for r in rows], color=color, linewidth=1.2, zorder=2)
    thick = max(2.0, min(14.0, 150 / len(rows)))
    low, high = [r[_P25] for r in rows], [r[_P75] for r in rows]
    axes.vlines(places, low, high, color=color, linewidth=thick, alpha=0.55, zorder=2)
    median = [r[_P50] for r in rows]
    half = min(0.36, 0.012 * thick * max(4, len(rows)) / 4)
    axes.hlines(median, [p - half for p in places], [p + half for p in places], color=theme.INK, linewidth=1.6)
    axes.plot(places, [r[_P99] for r in rows], ".", color=color, markersize=4)
    _finish(axes, digest, factor, max(r[_P99] for r in rows), min(r[_P5] for r in rows))
    axis.category_limits(axes, len(rows))


def _band(axes: Axes, digest: StepDigest) -> None:
    """Bands instead of boxes, for many ranks."""
    factor = _unit(axes, digest)
    rows = [[value * factor for value in rank] for rank in digest.ranks]
    places = list(range(len(rows)))
    color = theme.PALETTE[0]
    axes.fill_between(places, [r[_P5] for r in rows], [r[_P95] for r in rows], color=color, alpha=0.2, linewidth=0)
    axes.fill_between(places, [r[_P25] for r in rows], [r[_P75] for r in rows], color=color, alpha=0.4, linewidth=0)
    axes.plot(places, [r[_P50] for r in rows], color=theme.INK, linewidth=1.2)
    _finish(axes, digest, factor, max(r[_P95] for r in rows), min(r[_P5] for r in rows))
    axes.set_xlim(0, len(rows) - 1)


def _finish(axes: Axes, digest: StepDigest, factor: float, high: float, low: float) -> None:
    slowest = digest.slowest[_P50] * factor
    axes.axhline(slowest, color=theme.PALETTE[1], linewidth=1, linestyle=theme.DASHED, zorder=1)
    air = max((high - low) * 0.08, high * 0.01)
    axis.linear_axis(axes, "y", max(0.0, low - air), max(high, slowest) + air, axis.short)
    count = len(digest.ranks)
    step = max(1, -(-count // 8))
    ticks = list(range(0, count, step))
    axis.fixed_ticks(axes, "x", ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("Rank")


def _unit(axes: Axes, digest: StepDigest) -> float:
    factor, unit = (1e3, "ms") if digest.slowest[_P99] < 1 else (1, "s")
    axes.set_ylabel(f"Step ({unit})")
    return factor
