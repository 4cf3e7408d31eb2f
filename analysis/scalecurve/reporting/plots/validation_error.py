"""Validation error over epochs: the mean over repetitions, and each repetition as a thin line."""

from collections.abc import Sequence
from statistics import fmean

from scalecurve.reporting.drawing import Drawing, Sheet, axis, level_line, style
from scalecurve.reporting.drawing.shown_points import drawn_points
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve.training_results import PointTraining

WIDTH, HEIGHT = 7.4, 3.7
LOG_FROM = 8.0
"""A log axis where the largest error is this many times the smallest."""


@plot("error", section="accuracy", order=10)
def validation_error(findings: Findings) -> Drawing | None:
    """One panel, wide enough for a dozen points."""
    points = findings.training.points
    if not points:
        return None
    shown, left_out = drawn_points(points)
    sheet = Sheet(labels=[p.label for p in shown], width=WIDTH, height=HEIGHT)
    (axes,) = sheet.panels
    every = [1 - e.accuracy for p in shown for run in p.runs for e in run]
    low, high = min(every), max(every)
    for index, p in enumerate(shown):
        look = style(index)
        if len(p.runs) > 1:
            for run in p.runs:
                axes.plot(
                    [e.epoch for e in run],
                    [1 - e.accuracy for e in run],
                    color=look.color,
                    linewidth=0.7,
                    alpha=0.4,
                )
        epochs, means = mean_error(p)
        (sheet.handles[p.label],) = axes.plot(
            epochs,
            means,
            color=look.color,
            linestyle=look.line,
            marker=look.marker,
            markersize=4,
            markevery=max(1, len(epochs) // 14),
            label=p.label,
        )
    targets = sorted({p.target for p in shown if p.target is not None})
    ends = [low, high, *(1 - target for target in targets if target < 1)]
    if low > 0 and high > LOG_FROM * low:
        axis.log_axis(axes, "y", min(ends), max(ends), axis.percent)
    else:
        air = max(0.002, (max(ends) - min(ends)) * 0.05)
        axis.linear_axis(axes, "y", max(0.0, min(ends) - air), min(1.0, max(ends) + air), axis.percent)
    for target in targets:
        level_line(axes, 1 - target)
    axis.epoch_axis(axes, max(p.epochs for p in shown))
    axes.set_ylabel("Validation error")
    return sheet.drawing("Validation error", _caption(points, bool(targets)) + left_out)


def mean_error(p: PointTraining) -> tuple[list[int], list[float]]:
    """(epochs, mean error) over the repetitions, as far as all of them went."""
    by_epoch: dict[int, list[float]] = {}
    for run in p.runs:
        for e in run:
            by_epoch.setdefault(e.epoch, []).append(1 - e.accuracy)
    means = [(epoch, fmean(errors)) for epoch, errors in sorted(by_epoch.items()) if len(errors) == len(p.runs)]
    return [epoch for epoch, _ in means], [value for _, value in means]


def _caption(points: Sequence[PointTraining], targets: bool) -> str:
    caption = "1 - accuracy on held-out data after every epoch."
    if any(len(p.runs) > 1 for p in points):
        caption += (
            " Thick lines are means over the repetitions, up to the last epoch of all; thin lines are single ones."
        )
    return caption + (" The dashed line is the target." if targets else "")
