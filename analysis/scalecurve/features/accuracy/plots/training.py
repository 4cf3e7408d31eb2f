"""What training reached, over workers, and on both splits by epoch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scalecurve.features.accuracy.results import PointTraining
from scalecurve.features.accuracy.results.by_workers import epochs_to_settle, turnaround_s
from scalecurve.features.accuracy.sections import training_of
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, Style, axis, first, interval_bars, level_line, style, theme
from scalecurve.reporting.drawing.marks import hollow, hollow_marks
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.mean import mean
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.text import count

LOG_FROM = 4.0  # an axis is on a log scale where its largest value is this many times the smallest
MOST_POINTS, MOST_LINES = 6, 8
_FIT = (
    "Accuracy by epoch, mean over the repetitions: dashed on training data, solid on validation data. A solid line "
    "that stops or falls while the dashed one climbs is overfitting."
)
_SOME, _NONE = "mean of the repetitions that got there", "target not reached: after the last epoch"


@dataclass(frozen=True)
class Quantity:
    """A number of a point; ``runs`` of its repetitions have it, and where none has, ``instead`` takes its place."""

    label: str
    value: Callable[[PointTraining], Estimate | None]
    runs: Callable[[PointTraining], int] = lambda p: len(p.runs)
    instead: Callable[[PointTraining], Estimate] | None = None

    def stands_for(self, p: PointTraining) -> Estimate | None:
        """Return what to draw of the point where no repetition reached the target."""
        return self.instead(p) if self.instead and p.target is not None and not self.runs(p) else None

    def drawn(self, p: PointTraining) -> bool:
        return self.value(p) is not None or self.stands_for(p) is not None


def _epochs_to_convergence(p: PointTraining) -> Estimate | None:
    epochs = epochs_to_settle(p)
    return mean(epochs, p.level, least=0) if epochs else None


def _turnaround(p: PointTraining) -> Estimate | None:
    seconds = [value for value in map(turnaround_s, p.records) if value is not None]
    return mean(seconds, p.level, least=0) if seconds else None


def _count_runs_at_target(p: PointTraining) -> int:
    return len(p.reached)


ACCURACY = Quantity("Validation accuracy", lambda p: p.final)
TO_TARGET = (
    Quantity("Epochs to target", lambda p: p.epochs_to_target, _count_runs_at_target, lambda p: p.last_epoch),
    Quantity("Time to target (s)", lambda p: p.seconds_to_target, _count_runs_at_target, lambda p: p.last_epoch_at_s),
)
_OVER_WORKERS = (
    ACCURACY,
    Quantity("Epochs to convergence", _epochs_to_convergence, lambda p: len(epochs_to_settle(p))),
    Quantity("Epoch time (s)", lambda p: p.epoch_s),
    Quantity("Turnaround (s)", _turnaround),
    *TO_TARGET,
)


@plot("fit", section="accuracy", order=30)
def fit(analysis: Analysis) -> Drawing | None:
    """Draw a panel for each point, all on one scale; return None where no training counted its own answers."""
    points = [p for p in analysis.once(training_of).points if p.fitted is not None]
    if not points:
        return None
    shown, omitted = first(points, MOST_POINTS, "points")
    sheet = Sheet(len(shown), ["training data", "validation data"])
    curves = [(p, _average_by_epoch(p, _training_accuracy), _average_by_epoch(p, lambda e: e.accuracy)) for p in shown]
    heights = [value for _, *both in curves for curve in both for value in curve.values()]
    for index, (panel, (p, trained, held)) in enumerate(zip(sheet.panels, curves, strict=True)):
        color = style(index).color
        (dashed,) = panel.plot(
            list(trained), list(trained.values()), color=color, linestyle="--", linewidth=1.5, label="training data"
        )
        (solid,) = panel.plot(list(held), list(held.values()), color=color, linewidth=1.8, label="validation data")
        if index == 0:
            sheet.handles |= {"training data": dashed, "validation data": solid}
        _shares(panel, heights)
        axis.epoch_axis(panel, p.epochs)
        last = max(held)
        sheet.tip(
            panel,
            last,
            held[last],
            f"{p.label}: training {formatting.percent(trained[last])}, validation {formatting.percent(held[last])}",
        )
    sheet.name_panels([p.label for p in shown])
    sheet.panels[0].set_ylabel("Accuracy")
    return sheet.drawing("Training and validation accuracy", _FIT + omitted)


def _training_accuracy(evaluation: Evaluation) -> float:
    return evaluation.train_accuracy or 0.0


def _average_by_epoch(p: PointTraining, value: Callable[[Evaluation], float]) -> dict[int, float]:
    """Means over the repetitions, as far as all of them went."""
    by_epoch: dict[int, list[float]] = {}
    for run in p.runs:
        for evaluation in run:
            by_epoch.setdefault(evaluation.epoch, []).append(value(evaluation))
    return {epoch: fmean(values) for epoch, values in sorted(by_epoch.items()) if len(values) == len(p.runs)}


@plot("training-workers", section="against-workers", order=10)
def draw_worker_panels(analysis: Analysis) -> Drawing | None:
    """Draw a panel for each quantity, with a line for each series of several worker counts."""
    series: dict[tuple[str, str], list[PointTraining]] = {}
    for p in analysis.once(training_of).points:
        series.setdefault((p.bundle, p.series), []).append(p)
    curves = {key: points for key, points in series.items() if len({p.point.workers for p in points}) > 1}
    if not curves:
        return None
    keys, omitted = first(list(curves), MOST_LINES, "series")
    several = len({bundle for bundle, _ in keys}) > 1
    lines = {f"{bundle}: {name}" if several else name: curves[bundle, name] for bundle, name in keys}
    points = [p for members in lines.values() for p in members]
    quantities = known(_OVER_WORKERS, points)
    marks = mark_legend(quantities, points)
    sheet = Sheet(len(quantities), [*(lines if len(lines) > 1 else []), *marks])
    sheet.handles |= marks
    for panel, quantity in zip(sheet.panels, quantities, strict=True):
        axis.workers_axis(panel, [p.point.workers for p in points])
        named = {name: [(float(p.point.workers), p) for p in members] for name, members in lines.items()}
        draw_lines(sheet, panel, quantity, named, lambda p: count(p.point.workers, "worker"))
    caption = (
        "Means over repetitions; bars are intervals. Turnaround is the entire trial, from its start to its record."
    )
    return sheet.drawing("Training over workers", caption + omitted)


def known(quantities: Sequence[Quantity], points: Sequence[PointTraining]) -> list[Quantity]:
    """Select the quantities that at least two points have."""
    return [quantity for quantity in quantities if sum(map(quantity.drawn, points)) > 1]


def mark_legend(quantities: Sequence[Quantity], points: Sequence[PointTraining]) -> dict[str, Line2D]:
    """Return a legend of what marks without filling, and crosses, stand for; it is empty where there are none."""
    drawn = [(quantity, p) for quantity in quantities for p in points]
    marks = {}
    if any(0 < quantity.runs(p) < len(p.runs) for quantity, p in drawn):
        marks[_SOME] = Line2D([], [], linestyle="none", marker="o", label=_SOME, **hollow(Style(theme.INK, "o", "-")))
    if any(quantity.stands_for(p) for quantity, p in drawn):
        marks[_NONE] = Line2D([], [], linestyle="none", marker="x", color=theme.INK, label=_NONE)
    return marks


def draw_lines(
    sheet: Sheet,
    panel: Axes,
    quantity: Quantity,
    lines: Mapping[str, Sequence[tuple[float, PointTraining]]],
    where: Callable[[PointTraining], str],
) -> list[Line2D]:
    """Draw the lines side by side, so that none hides another, and the vertical axis; the x axis has its limits."""
    share = quantity is ACCURACY
    heights: list[float] = []
    artists: list[Line2D] = []
    for index, (name, members) in enumerate(lines.items()):
        look = style(index)
        at = [(axis.dodged(panel, x, index, len(lines)), p) for x, p in sorted(members, key=lambda member: member[0])]
        drawn = [(x, p, value) for x, p in at if (value := quantity.value(p)) is not None]
        crosses = [(x, p, value) for x, p in at if (value := quantity.stands_for(p)) is not None]
        (line,) = panel.plot([x for x, *_ in drawn], [value.value for *_, value in drawn], **look.curve, label=name)
        artists.append(line)
        if name in sheet.labels:
            sheet.handles[name] = line
        panel.plot([x for x, *_ in crosses], [value.value for *_, value in crosses], "x", color=look.color, ms=7)
        hollow_marks(panel, [(x, v.value) for x, p, v in drawn if quantity.runs(p) < len(p.runs)], look)
        for x, p, value in (*drawn, *crosses):
            heights += [value.value, *interval_bars(panel, [(x, value.low, value.high)], look.color, alpha=0.38)]
            spoken = formatting.percent(value.value) if share else f"{value.value:,.4g}"
            missed = "" if quantity.value(p) else f" (not reached; {formatting.percent(p.final.value)} by then)"
            sheet.tip(panel, x, value.value, f"{name or 'all'}, {where(p)}: {quantity.label} {spoken}{missed}")
    targets = {p.target for members in lines.values() for _, p in members if p.target is not None}
    of = f"target of {formatting.percent(targets.pop())}" if len(targets) == 1 else "target"
    panel.set_ylabel(quantity.label.replace("target", of))
    if share:
        _shares(panel, heights)
    elif min(heights) > 0 and max(heights) >= LOG_FROM * min(heights):
        axis.log_axis(panel, "y", min(heights), max(heights), axis.short)
    else:
        axis.linear_axis(panel, "y", 0, max(heights) * 1.06 or 1, axis.short)
    return artists


def _shares(panel: Axes, heights: Sequence[float]) -> None:
    air = max(0.01, (max(heights) - min(heights)) * 0.08)
    low, high = max(0.0, min(heights) - air), max(heights) + air
    axis.linear_axis(panel, "y", low, high, axis.percent)
    if high > 1:
        level_line(panel, 1)
