"""Loss curves with their fits, and the time to a target over the worker count."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, style, theme
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import is_informative
from scalecurve_api.text import count
from scalecurve_models.learning_curves.fit import PointLearningFit
from scalecurve_models.learning_curves.tables import left_out_sentence
from scalecurve_models.optimus.depth import LeftOutDepth
from scalecurve_models.report.model_results import model_results

MOST_PANELS = 6
_SEEN, _AHEAD = theme.PALETTE[0], theme.PALETTE[1]
_LOSS = (
    "Dots are the losses of every run at its evaluations. The line is 1/(b0 k + b1) + b2 through all of them; the "
    "dashed line was fitted to the first half only (left of the vertical line) and extrapolates beyond it."
)
_LEFT_OUT = (
    "Dots are the losses of every run, joined by a thin line. The thick line is 1/(b0 k + b1) + b2 with coefficients "
    "that a regression over the size of the model predicts from all other depths; the dashed line has the means of "
    "their coefficients."
)
_TARGET = (
    "Marks are medians over the runs, at the first evaluation that met the target. Lines are the fitted curve of the "
    "same runs, with its interval; the curve meets the target before the evaluation."
)


@plot("loss", section="learning", order=10)
def losses(analysis: Analysis) -> Drawing | None:
    """One panel for each point that was trained."""
    learning = analysis.once(model_results).learning
    points = [(label, point) for label, found in learning for point in found.points]
    if not points:
        return None
    several = len(learning) > 1
    shown, omitted = first(points, MOST_PANELS, "points")
    sheet = Sheet(len(shown), legend_rows=1)
    for panel, (_, point) in zip(sheet.panels, shown, strict=True):
        sheet.handles |= _losses(panel, point)
    before = [f"{label}: " if several else "" for label, _ in shown]
    after = [f", {count(point.point.workers, 'worker')}" for _, point in shown]
    sheet.name_panels([point.point.series for _, point in shown], before, after)
    return sheet.drawing("Loss curves", _LOSS + omitted)


@plot("left-out-depths", section="learning", order=15)
def left_out_depths(analysis: Analysis) -> Drawing | None:
    """Of the first bundle with three depths or more."""
    learning = [found for _, found in analysis.once(model_results).learning if found.left_out]
    return draw_left_out(learning[0].left_out, learning[0].depth_training) if learning else None


def draw_left_out(left_outs: Sequence[LeftOutDepth], training: bool) -> Drawing:
    """One panel for each depth that was excluded from its regression: its curve as predicted, and as measured."""
    by_depth: dict[int | None, list[LeftOutDepth]] = {}
    for left in left_outs:
        by_depth.setdefault(left.run.depth, []).append(left)
    shown, omitted = first(list(by_depth.items()), MOST_PANELS, "depths")
    sheet = Sheet(len(shown), legend_rows=1)
    loss = "Training loss" if training else "Loss, held-out data"
    for panel, (depth, group) in zip(sheet.panels, shown, strict=True):
        sheet.handles |= _draw_prediction(panel, group)
        panel.set_ylabel(loss)
        off = formatting.percent(sum(left.error for left in group) / len(group))
        panel.set_title(f"depth {depth}: {off} off", loc="left")
    title = f"{loss.partition(',')[0]} predicted from other depths"
    return sheet.drawing(title, f"{_LEFT_OUT} {left_out_sentence(left_outs)}{omitted}")


@plot("time-to-target", section="learning", order=20)
def targets(analysis: Analysis) -> Drawing | None:
    """Training seconds to the target, measured and by the curve, over workers."""
    learning = analysis.once(model_results).learning
    curves: dict[str, list[PointLearningFit]] = {}
    for label, found in learning:
        for point in found.points:
            if point.reached_s is not None:
                name = f"{label}: {point.point.series}" if len(learning) > 1 else point.point.series
                curves.setdefault(name, []).append(point)
    if not any(len(points) > 1 for points in curves.values()):
        return None
    sheet = Sheet(labels=list(curves))
    (axes,) = sheet.panels
    heights = []
    for index, (name, points) in enumerate(curves.items()):
        look = style(index)
        points.sort(key=lambda point: point.point.workers)
        measured = [(point.point.workers, point.reached_s) for point in points if point.reached_s is not None]
        heights += [seconds for _, seconds in measured]
        (line,) = axes.plot(*zip(*measured, strict=True), color=look.color, marker=look.marker, linestyle="none")
        line.set_label(name)
        sheet.handles[name] = line
        by_curve = [(point.point.workers, *point.seconds) for point in points]
        known = [(n, value) for n, value, _, _ in by_curve if value is not None and math.isfinite(value)]
        heights += [seconds for _, seconds in known]
        if known:
            axes.plot(*zip(*known, strict=True), color=look.color, linestyle=look.line)
        bars = [(n, low, high) for n, _, low, high in by_curve if low and high and is_informative(low, high)]
        heights += interval_bars(axes, bars, look.color)
    axis.workers_axis(axes, [point.point.workers for points in curves.values() for point in points])
    positive = [height for height in heights if height > 0]
    if positive:
        axis.log_axis(axes, "y", min(positive), max(positive), axis.short)
    axes.set_ylabel("Training time to the target (s)")
    return sheet.drawing("Time to the target", _TARGET)


def _draw_prediction(axes: Axes, group: Sequence[LeftOutDepth]) -> dict[str, object]:
    handles: dict[str, object] = {}
    heights: list[float] = []
    for left in group:
        run = left.run
        (handles["measured"],) = axes.plot(
            run.steps, run.losses, "o-", color=theme.FAINT, markersize=2.6, linewidth=0.8, alpha=0.7, label="measured"
        )
        heights += run.losses.tolist()
    left = group[0]  # of one depth and several runs the prediction is one
    grid = np.linspace(float(left.run.steps.min()), float(left.run.steps.max()), 160)
    for values, color, line, name in (
        (left.values, _SEEN, "-", "from the other depths"),
        (left.mean_values, _AHEAD, theme.DASHES[1], "mean of the other depths"),
    ):
        b0, b1, b2 = values
        losses = 1 / (b0 * (grid - left.run.fit.first_step) + max(b1, 1e-12)) + b2
        inside = losses <= 2 * max(heights)
        (handles[name],) = axes.plot(grid[inside], losses[inside], color=color, linestyle=line, label=name)
        heights += losses[inside].tolist()
    axis.linear_axis(axes, "y", 0.0, max(heights) * 1.05, axis.short)
    axis.linear_axis(axes, "x", 0, float(grid[-1]) * 1.03, axis.short)
    axes.set_xlabel("Step")
    return handles


def _losses(axes: Axes, point: PointLearningFit) -> dict[str, object]:
    steps = np.concatenate([curve.steps for curve in point.curves])
    found = np.concatenate([curve.losses for curve in point.curves])
    (dots,) = axes.plot(steps, found, "o", color=theme.FAINT, markersize=2.6, alpha=0.7, label="measured")
    handles: dict[str, object] = {"measured": dots}
    last = float(steps.max())
    grid = np.linspace(float(steps.min()), last, 160)
    for fit, color, line, name in (
        (point.fit, _SEEN, "-", "fit to all"),
        (point.half, _AHEAD, theme.DASHES[1], "fit to the first half"),
    ):
        if fit is not None:
            (handles[name],) = axes.plot(grid, fit.loss(grid), color=color, linestyle=line, label=name)
    top, bottom = float(found.max()), float(found.min())
    air = max((top - bottom) * 0.08, 1e-9)
    axis.linear_axis(axes, "y", max(0.0, bottom - air), top + air, axis.short)
    axis.linear_axis(axes, "x", 0, last * 1.03, axis.short)
    if point.half is not None:
        axes.axvline(last / 2, color=theme.GRID, linewidth=1, zorder=0)
    axes.set_xlabel("Step")
    axes.set_ylabel("Loss, held-out data")
    return handles
