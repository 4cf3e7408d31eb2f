"""Loss curves with their fits, and the time to a target over the worker count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve_models.learning_curves.fit import LearningFit, PointLearningFit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 6
_SEEN, _AHEAD = canvas.PALETTE[0], canvas.PALETTE[1]
_LOSS = (
    "Dots are the losses of every run at its evaluations. The line is 1/(b0 k + b1) + b2 through all of them; the "
    "dashed line was fitted to the first half alone (left of the upright line) and goes on into what it had not seen."
)
_TARGET = (
    "Marks are medians of what the runs took, at the first evaluation that met the target. Lines are by the curve that "
    "was fitted to those same runs, with its interval: the curve lies before the evaluation."
)


def losses(learnt: Sequence[tuple[str, LearningFit]], png: bool) -> Iterator[Plot]:
    """One panel for each point that was trained."""
    points = [(label, point) for label, found in learnt for point in found.points]
    if not points:
        return
    several = len(learnt) > 1
    shown = points[:MOST_PANELS]
    figure, panels = canvas.panels(len(shown), 2, 1)
    handles: dict[str, object] = {}
    for panel, (_, point) in zip(panels, shown, strict=True):
        handles |= _losses(panel, point)
    before = [f"{label}: " if several else "" for label, _ in shown]
    after = [
        f", {count} worker" + ("" if count == 1 else "s") for _, point in shown for count in (point.point.workers,)
    ]
    canvas.name_panels(panels, [point.point.series for _, point in shown], before, after)
    canvas.legend(figure, list(handles.values()), len(handles))
    more = len(points) - len(shown)
    caption = _LOSS + (f" The first {MOST_PANELS} points; {more} more are in the table." if more else "")
    yield canvas.finish(figure, "loss", "Loss curves", caption, png)


def targets(learnt: Sequence[tuple[str, LearningFit]], png: bool) -> Iterator[Plot]:
    """Training seconds to the target, measured and by the curve, over workers."""
    curves: dict[str, list[PointLearningFit]] = {}
    for label, found in learnt:
        for point in found.points:
            if point.reached_s is not None:
                name = f"{label}: {point.point.series}" if len(learnt) > 1 else point.point.series
                curves.setdefault(name, []).append(point)
    if not any(len(points) > 1 for points in curves.values()):
        return
    columns, rows = canvas.legend_shape(list(curves), canvas.figure_width(1, 1))
    figure, (axes,) = canvas.panels(1, 1, rows)
    handles, heights = [], []
    for index, (name, points) in enumerate(curves.items()):
        look = canvas.style(index)
        points.sort(key=lambda point: point.point.workers)
        measured = [(point.point.workers, point.reached_s) for point in points if point.reached_s is not None]
        heights += [seconds for _, seconds in measured]
        (line,) = axes.plot(*zip(*measured, strict=True), color=look.color, marker=look.marker, linestyle="none")
        line.set_label(name)
        handles.append(line)
        by_curve = [(point.point.workers, *point.seconds) for point in points]
        known = [(n, value) for n, value, _, _ in by_curve if value is not None and math.isfinite(value)]
        heights += [seconds for _, seconds in known]
        if known:
            axes.plot(*zip(*known, strict=True), color=look.color, linestyle=look.line)
        bars = [(n, low, high) for n, _, low, high in by_curve if low and high and math.isfinite(high)]
        heights += [end for _, *ends in bars for end in ends]
        if bars:
            axes.vlines(*zip(*bars, strict=True), color=look.color, linewidth=3.4, alpha=0.3)
    axis.workers_axis(axes, [point.point.workers for points in curves.values() for point in points])
    positive = [height for height in heights if height > 0]
    if positive:
        axis.log_axis(axes, "y", min(positive), max(positive), axis.short)
    axes.set_ylabel("Training time to the target (s)")
    canvas.legend(figure, handles, columns)
    yield canvas.finish(figure, "time-to-target", "Time to the target", _TARGET, png)


def _losses(axes: Axes, point: PointLearningFit) -> dict[str, object]:
    steps = np.concatenate([curve.steps for curve in point.curves])
    found = np.concatenate([curve.losses for curve in point.curves])
    (dots,) = axes.plot(steps, found, "o", color=canvas.FAINT, markersize=2.6, alpha=0.7, label="measured")
    handles: dict[str, object] = {"measured": dots}
    last = float(steps.max())
    grid = np.linspace(float(steps.min()), last, 160)
    for fit, color, line, name in (
        (point.fit, _SEEN, "-", "fit to all"),
        (point.half, _AHEAD, canvas.DASHES[1], "fit to the first half"),
    ):
        if fit is not None:
            (handles[name],) = axes.plot(grid, fit.loss(grid), color=color, linestyle=line, label=name)
    top, bottom = float(found.max()), float(found.min())
    air = max((top - bottom) * 0.08, 1e-9)
    axis.linear_axis(axes, "y", max(0.0, bottom - air), top + air, axis.short)
    axis.linear_axis(axes, "x", 0, last * 1.03, axis.short)
    if point.half is not None:
        axes.axvline(last / 2, color=canvas.GRID, linewidth=1, zorder=0)
    axes.set_xlabel("Step")
    axes.set_ylabel("Loss, held-out data")
    return handles
