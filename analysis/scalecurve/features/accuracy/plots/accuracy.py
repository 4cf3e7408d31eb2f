"""Training to accuracy: validation error over epochs, accuracy on the training data, and accuracy over time."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scalecurve.curves.results import PointResult
from scalecurve.features.accuracy.results import PointTraining
from scalecurve.features.accuracy.sections import training_of
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, Style, axis, level_line, style
from scalecurve.reporting.drawing.marks import hollow, hollow_caption
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot

MOST_CURVES = 12
WIDTH, HEIGHT = 7.4, 3.7
LOG_FROM = 8.0  # a log axis where the largest error is this many times the smallest


@plot("error", section="accuracy", order=10)
def validation_error(analysis: Analysis) -> Drawing | None:
    """Draw the mean over repetitions, and each repetition as a thin line, in a panel wide enough for a dozen points."""
    points = analysis.once(training_of).points
    if not points:
        return None
    shown, omitted = select_points(points)
    sheet = Sheet(labels=[p.label for p in shown], width=WIDTH, height=HEIGHT)
    (axes,) = sheet.panels
    every = [1 - e.accuracy for p in shown for run in p.runs for e in run]
    low, high = min(every), max(every)
    for index, p in enumerate(shown):
        look = style(index)
        for run in p.runs if len(p.runs) > 1 else ():
            errors = [1 - e.accuracy for e in run]
            axes.plot([e.epoch for e in run], errors, color=look.color, linewidth=0.7, alpha=0.4)
        epochs, means = mean_error(p)
        curve = _curve(analysis, p, look)
        (line,) = axes.plot(epochs, means, **curve, markersize=4, markevery=max(1, len(epochs) // 14), label=p.label)
        sheet.handles[p.label] = line
    targets = sorted({p.target for p in shown if p.target is not None})
    ends = [low, high, *(1 - target for target in targets if target < 1)]
    if low > 0 and high > LOG_FROM * low:
        axis.log_axis(axes, "y", min(ends), max(ends), axis.percent)
    else:
        air = max(0.002, (max(ends) - min(ends)) * 0.05)
        axis.linear_axis(axes, "y", max(0.0, min(ends) - air), min(1.0, max(ends) + air), axis.percent)
    for target in targets:
        level_line(axes, 1 - target, "target")
    axis.epoch_axis(axes, max(p.epochs for p in shown))
    axes.set_ylabel("Validation error")
    caption = "1 - accuracy on held-out data after every epoch."
    if any(len(p.runs) > 1 for p in points):
        caption += (
            " Thick lines are means over the repetitions, up to the last epoch of all; thin lines are single ones."
        )
    caption += " The dashed line is the target." if targets else ""
    return sheet.drawing("Validation error", caption + hollow_caption(_result(analysis, p) for p in shown) + omitted)


def _curve(analysis: Analysis, p: PointTraining, look: Style) -> dict[str, Any]:
    return look.curve | (hollow(look) if _result(analysis, p).doubts else {})


def _result(analysis: Analysis, p: PointTraining) -> PointResult:
    return analysis.result_of(p.bundle, p.series, p.point)


def mean_error(p: PointTraining) -> tuple[list[int], list[float]]:
    """Compute (epochs, mean error) over the repetitions, as far as all of them went."""
    by_epoch: dict[int, list[float]] = {}
    for run in p.runs:
        for e in run:
            by_epoch.setdefault(e.epoch, []).append(1 - e.accuracy)
    means = [(epoch, fmean(errors)) for epoch, errors in sorted(by_epoch.items()) if len(errors) == len(p.runs)]
    return [epoch for epoch, _ in means], [value for _, value in means]


@plot("accuracy", section="accuracy", order=20)
def accuracy(analysis: Analysis) -> Drawing | None:
    """Draw a line per repetition, the first of each point thicker and with markers."""
    if not analysis.once(training_of).points:
        return None
    shown, omitted = select_points(analysis.once(training_of).points)
    targets = {p.target for p in shown if p.target is not None}
    everything = [e for p in shown for run in p.runs for e in run]
    fitted = [e.train_accuracy for e in everything if e.train_accuracy is not None]
    sheet = Sheet(2 if fitted else 1, [p.label for p in shown])
    over_epochs, by_time = sheet.panels[0], sheet.panels[-1]
    for index, p in enumerate(shown):
        curve = _curve(analysis, p, style(index))
        for number, run in enumerate(p.runs):
            line = _line(by_time, curve, number, [(e.wall_s, e.accuracy) for e in run])
            if number == 0:
                line.set_label(p.label)
                sheet.handles[p.label] = line
            learnt = [(float(e.epoch), e.train_accuracy) for e in run if e.train_accuracy is not None]
            if learnt:
                _line(over_epochs, curve, number, learnt)
    _upright(by_time, [e.accuracy for e in everything], targets)
    for target in targets:
        level_line(by_time, target, "target")
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
    return sheet.drawing("Accuracy", caption + hollow_caption(_result(analysis, p) for p in shown) + omitted)


def _line(axes: Axes, curve: dict[str, Any], number: int, places: Sequence[tuple[float, float]]) -> Line2D:
    look = curve | ({"linewidth": 1.6} if number == 0 else {"linewidth": 0.9, "alpha": 0.45, "marker": None})
    (line,) = axes.plot(*zip(*places, strict=True), **look, markevery=max(1, len(places) // 12), markersize=4)
    return line


def _upright(axes: Axes, values: Sequence[float], targets: set[float]) -> None:
    low, high = min(values), max(values)
    air = max(0.02, (high - low) * 0.06)
    bounds = max(0.0, min(low, *targets, high) - air), max(high, *targets, low) + air
    axis.linear_axis(axes, "y", *bounds, formatting.stated_percent)


def select_points(points: Sequence[PointTraining]) -> tuple[Sequence[PointTraining], str]:
    """Return all points if few enough, otherwise each series' largest count, and a sentence for the caption."""
    if len(points) <= MOST_CURVES:
        return points, ""
    largest = {(p.bundle, p.series): p for p in sorted(points, key=lambda p: p.point.workers)}
    kept = [p for p in points if largest[p.bundle, p.series] is p]
    shown = kept[:MOST_CURVES]
    which = "The largest worker count of each series" if len(kept) < len(points) else "Series"
    of = f", the first {MOST_CURVES} of {len(kept)}" if len(kept) > MOST_CURVES else ""
    more = len(points) - len(shown)
    return shown, f" {which}{of}; {more} more point{'s are' if more > 1 else ' is'} in the table."
