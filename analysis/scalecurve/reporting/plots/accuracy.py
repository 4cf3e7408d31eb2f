"""Accuracy on the training data over epochs, and on held-out data over training time."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scalecurve.reporting.drawing import Drawing, Sheet, axis, level_line, style
from scalecurve.reporting.drawing.shown_points import drawn_points
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot


@plot("accuracy", section="accuracy", order=20)
def accuracy(findings: Findings) -> Drawing | None:
    """A thin line per repetition, with markers on the first of each point."""
    if not findings.training.points:
        return None
    shown, left_out = drawn_points(findings.training.points)
    targets = {p.target for p in shown if p.target is not None}
    everything = [e for p in shown for run in p.runs for e in run]
    fitted = [e.train_accuracy for e in everything if e.train_accuracy is not None]
    sheet = Sheet(2 if fitted else 1, [p.label for p in shown])
    over_epochs, by_time = sheet.panels[0], sheet.panels[-1]
    for index, p in enumerate(shown):
        for number, run in enumerate(p.runs):
            line = _line(by_time, index, number, [(e.wall_s, e.accuracy) for e in run])
            if number == 0:
                line.set_label(p.label)
                sheet.handles[p.label] = line
            learnt = [(float(e.epoch), e.train_accuracy) for e in run if e.train_accuracy is not None]
            if learnt:
                _line(over_epochs, index, number, learnt)
    _upright(by_time, [e.accuracy for e in everything], targets)
    for target in targets:
        level_line(by_time, target)
    axis.linear_axis(by_time, "x", 0, max(e.wall_s for e in everything) * 1.03, axis.short)
    by_time.set_xlabel("Training time (s), without evaluation")
    by_time.set_ylabel("Accuracy, held-out data")
    if fitted:
        _upright(over_epochs, fitted, set())
        axis.epoch_axis(over_epochs, max(e.epoch for e in everything))
        over_epochs.set_ylabel("Accuracy, training data")
    caption = "Thin lines are repetitions."
    caption += " Training accuracy is that of each step's own model on the batches it trained on." if fitted else ""
    caption += " The dashed line is the target." if targets else ""
    return sheet.drawing("Accuracy", caption + left_out)


def _line(axes: Axes, index: int, number: int, places: Sequence[tuple[float, float]]) -> Line2D:
    look = style(index)
    (line,) = axes.plot(
        [at for at, _ in places],
        [value for _, value in places],
        color=look.color,
        linestyle=look.line,
        linewidth=1.6 if number == 0 else 0.9,
        alpha=1 if number == 0 else 0.45,
        marker=look.marker if number == 0 else None,
        markevery=max(1, len(places) // 12),
        markersize=4,
    )
    return line


def _upright(axes: Axes, values: Sequence[float], targets: set[float]) -> None:
    low, high = min(values), max(values)
    air = max(0.02, (high - low) * 0.06)
    bounds = max(0.0, min(low, *targets, high) - air), max(high, *targets, low) + air
    axis.linear_axis(axes, "y", *bounds, lambda v: f"{v * 100:g} %")
