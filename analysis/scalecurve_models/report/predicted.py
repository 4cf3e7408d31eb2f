"""Predicted vs. measured, one panel per curve: efficiency, which makes a percent visible."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scalecurve.reporting.drawing import Drawing, Sheet, Style, axis, first, level_line, style, theme
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import is_informative
from scalecurve_models.comparison.compare_models import HELD_OUT, LEFT_OUT, ModelCurve, SeriesComparison
from scalecurve_models.report.model_results import model_results

MOST_PANELS = 8
LINEAR = "linear"
_MOST_EFFICIENCY = 1.6
_DODGE = 0.05
_CAPTION = (
    "Dots are measured. Hollow marks are predictions of a point by a fit without it; lines are fits to all points. The "
    "thick line is the model with the lowest error at left-out points; its band is for a new run."
)


@plot("predicted", section="predicted", order=10)
def predicted(findings: Findings) -> Drawing | None:
    """Every model on every curve of more than one point."""
    curves = findings.once(model_results).shown
    if not curves:
        return None
    shown, left_out = first(curves, MOST_PANELS, "curves")
    several = len({each.series.bundle for each in curves}) > 1
    names = list(dict.fromkeys(model.name for each in curves for model in each.prediction.models))
    drawn = [name for name in names if name != LINEAR and any(_curve(each, name) for each in shown)]
    sheet = Sheet(len(shown), ["measured", *drawn])
    for panel, each in zip(sheet.panels, shown, strict=True):
        _panel(panel, each, {name: style(index) for index, name in enumerate(drawn)})
    before = [f"{each.series.bundle}: " if several else "" for each in shown]
    sheet.name_panels([each.series.name for each in shown], before)
    sheet.panels[0].set_ylabel("Efficiency")
    sheet.handles["measured"] = Line2D([], [], color=theme.INK, marker="o", linestyle="none", label="measured")
    for index, name in enumerate(drawn):
        look = style(index)
        sheet.handles[name] = Line2D(
            [], [], color=look.color, linestyle=look.line, marker=look.marker, mfc=theme.PAPER, label=name
        )
    return sheet.drawing("Predicted vs. measured", _CAPTION + left_out)


def _panel(axes: Axes, comparison: SeriesComparison, looks: dict[str, Style]) -> None:
    measured = dict(comparison.measured)
    base = comparison.series.baseline if comparison.series.baseline in measured else min(measured)
    one = measured[base] / base

    def share(workers: float, rate: float) -> float:
        return rate / workers / one

    axis.workers_axis(axes, list(measured))
    level_line(axes, 1)
    heights = [1.0, *(share(n, rate) for n, rate in measured.items())]
    for order, (name, look) in enumerate(looks.items()):
        curve = _curve(comparison, name)
        if curve is None:
            continue
        last = max(measured)
        known = [(n, share(n, rate)) for n, rate in zip(curve.workers, curve.throughput, strict=True) if n <= last]
        width = 2.4 if curve.best else 1.0
        axes.plot(*zip(*known, strict=True), color=look.color, linestyle=look.line, linewidth=width, zorder=2)
        if curve.best:
            heights += [y for _, y in known]
            _band(axes, curve, share, look)
        shift = 2 ** (_DODGE * (order - (len(looks) - 1) / 2))
        blind = [
            (row.workers * shift, share(row.workers, row.predicted))
            for row in comparison.rows
            if row.model == name and row.predicted is not None and row.how in (LEFT_OUT, HELD_OUT)
        ]
        heights += [y for _, y in blind]
        if blind:
            hollow: Any = {"color": look.color, "marker": look.marker, "mfc": theme.PAPER, "linestyle": "none"}
            axes.plot(*zip(*blind, strict=True), **hollow, zorder=4)
    axes.plot(list(measured), [share(*item) for item in measured.items()], "o", color=theme.INK, zorder=5)
    inside = [min(_MOST_EFFICIENCY, height) for height in heights]
    low, high = min(inside), max(inside)
    air = max(0.01, (high - low) * 0.08)
    axis.linear_axis(axes, "y", max(0.0, low - air), high + air, lambda value: f"{round(value * 100, 1):g} %")


def _band(axes: Axes, curve: ModelCurve, share: Any, look: Style) -> None:
    ends = [
        (n, share(n, low), share(n, min(high, 10 * rate)))
        for n, rate, low, high in zip(curve.workers, curve.throughput, curve.low, curve.high, strict=True)
        if low is not None and high is not None and is_informative(low, high)
    ]
    if ends:
        places, low, high = ([end[side] for end in ends] for side in range(3))
        axes.fill_between(places, low, high, color=look.color, alpha=0.18, linewidth=0, zorder=1)


def _curve(comparison: SeriesComparison, name: str) -> ModelCurve | None:
    return next((curve for curve in comparison.curves if curve.model == name), None)
