"""What training reached, over workers, over the values of each axis, and on both splits by epoch."""

from collections.abc import Callable, Sequence
from statistics import fmean

from matplotlib.axes import Axes

from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, level_line, style
from scalecurve.reporting.drawing.marks import hollow_marks
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.mean import mean
from scalecurve.training_results import PointTraining
from scalecurve.training_results.along_axes import ValueTraining, along_axes
from scalecurve.training_results.by_workers import epochs_to_settle, turnaround_s
from scalecurve.training_results.outcome import spelled_axis
from scalecurve_api.record.rank import Evaluation
from scalecurve_api.text import count

Quantity = Callable[[PointTraining], Estimate | None]
LOG_FROM = 4.0  # an axis is on a log scale where its largest value is this many times the smallest
MOST_POINTS, MOST_AXES, MOST_LINES = 6, 3, 8
_CONVERGENCE = "Epochs to convergence"
_SOME = " Hollow marks are means of only those repetitions that reached the target, or converged."
_FIT = (
    "Accuracy by epoch, mean over the repetitions: dashed on training data, solid on validation data. A solid line "
    "that stops or falls while the dashed one climbs is overfitting."
)


def _converged(p: PointTraining) -> Estimate | None:
    epochs = epochs_to_settle(p)
    return mean(epochs, p.level, least=0) if epochs else None


def _missed(label: str, p: PointTraining) -> bool:
    """Whether some runs of the point never came to what the quantity counts to."""
    if label == _CONVERGENCE:
        return len(epochs_to_settle(p)) < len(p.runs)
    return label in dict(_TO_TARGET) and len(p.reached) < len(p.runs)


def _turnaround(p: PointTraining) -> Estimate | None:
    seconds = [value for value in map(turnaround_s, p.records) if value is not None]
    return mean(seconds, p.level, least=0) if seconds else None


_ACCURACY = ("Validation accuracy", lambda p: p.final)
_TO_TARGET: tuple[tuple[str, Quantity], ...] = (
    ("Epochs to target", lambda p: p.epochs_to_target),
    ("Time to target (s)", lambda p: p.seconds_to_target),
)
_OVER_WORKERS: tuple[tuple[str, Quantity], ...] = (
    _ACCURACY,
    (_CONVERGENCE, _converged),
    ("Epoch time (s)", lambda p: p.epoch_s),
    ("Turnaround (s)", _turnaround),
    *_TO_TARGET,
)
_OVER_VALUES: tuple[tuple[str, Quantity], ...] = (_ACCURACY, *_TO_TARGET)


@plot("fit", section="accuracy", order=30)
def fit(findings: Findings) -> Drawing | None:
    """A panel a point, all on one scale; None where no training counted its own answers."""
    points = [p for p in findings.training.points if p.fitted is not None]
    if not points:
        return None
    shown, left_out = first(points, MOST_POINTS, "points")
    sheet = Sheet(len(shown), ["training data", "validation data"])
    curves = [(p, _by_epoch(p, _fitted), _by_epoch(p, lambda e: e.accuracy)) for p in shown]
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
    return sheet.drawing("Training and validation accuracy", _FIT + left_out)


def _fitted(evaluation: Evaluation) -> float:
    return evaluation.train_accuracy or 0.0


def _by_epoch(p: PointTraining, value: Callable[[Evaluation], float]) -> dict[int, float]:
    """Means over the repetitions, as far as all of them went."""
    by_epoch: dict[int, list[float]] = {}
    for run in p.runs:
        for evaluation in run:
            by_epoch.setdefault(evaluation.epoch, []).append(value(evaluation))
    return {epoch: fmean(values) for epoch, values in sorted(by_epoch.items()) if len(values) == len(p.runs)}


@plot("training-workers", section="against-workers", order=10)
def over_workers(findings: Findings) -> Drawing | None:
    """A panel a quantity, a line a series with several worker counts."""
    series: dict[tuple[str, str], list[PointTraining]] = {}
    for p in findings.training.points:
        series.setdefault((p.bundle, p.series), []).append(p)
    curves = {key: points for key, points in series.items() if len({p.point.workers for p in points}) > 1}
    if not curves:
        return None
    keys, left_out = first(list(curves), MOST_LINES, "series")
    several = len({bundle for bundle, _ in keys}) > 1
    lines = {f"{bundle}: {name}" if several else name: curves[bundle, name] for bundle, name in keys}
    quantities = _known(_OVER_WORKERS, [p for points in lines.values() for p in points])
    sheet = Sheet(len(quantities), list(lines) if len(lines) > 1 else [])
    for panel, (label, quantity) in zip(sheet.panels, quantities, strict=True):
        axis.workers_axis(panel, [p.point.workers for points in lines.values() for p in points])
        named = {name: [(float(p.point.workers), p) for p in points] for name, points in lines.items()}
        _lines(sheet, panel, label, quantity, named, lambda p: count(p.point.workers, "worker"))
    caption = (
        "Means over repetitions; bars are intervals. Turnaround is the entire trial, from its start to its record."
    )
    some = any(_missed(label, p) for points in lines.values() for p in points for label, _ in quantities)
    return sheet.drawing("Training over workers", caption + _SOME * some + left_out)


@plot("training-axes", section="training-axes", order=10)
def over_values(findings: Findings) -> Drawing | None:
    """A row of panels for each axis: accuracy, and epochs and time to the target where there is one."""
    results = findings.once(training_along_axes)
    axes = list(dict.fromkeys((r.training.bundle, r.axis) for r in results))
    if not axes:
        return None
    shown, left_out = first(axes, MOST_AXES, "axes")
    groups = [_fewer_lines([r for r in results if (r.training.bundle, r.axis) == key]) for key in shown]
    panels = [(g, label, q) for g in groups for label, q in _known(_OVER_VALUES, [r.training for r in g])]
    labels = list(dict.fromkeys(_line_label(r, group) for group in groups for r in group))
    sheet = Sheet(len(panels), labels if len(labels) > 1 else [])
    for panel, (group, label, quantity) in zip(sheet.panels, panels, strict=True):
        places = _value_axis(panel, group)
        lines: dict[str, list[tuple[float, PointTraining]]] = {}
        for r in group:
            lines.setdefault(_line_label(r, group), []).append((places[spelled_axis(r.value)], r.training))
        _lines(sheet, panel, label, quantity, lines, _spelled_value(group[0].axis), labels)
        panel.set_xlabel(group[0].axis)
    caption = "Points that differ in this axis only: means over repetitions; bars are intervals."
    some = any(_missed(label, r.training) for group, label, _ in panels for r in group)
    return sheet.drawing("Training along each axis", caption + _SOME * some + left_out)


def training_along_axes(findings: Findings) -> tuple[ValueTraining, ...]:
    """Every axis of the experiments that changed what training reached, or could have."""
    return along_axes(findings.training.points)


def _spelled_value(axis_name: str) -> Callable[[PointTraining], str]:
    return lambda p: spelled_axis(p.point.axes[axis_name])


def _known(quantities: Sequence[tuple[str, Quantity]], points: Sequence[PointTraining]) -> list[tuple[str, Quantity]]:
    """Those that at least two points have."""
    return [(label, of) for label, of in quantities if sum(of(p) is not None for p in points) > 1]


def _fewer_lines(group: list[ValueTraining]) -> list[ValueTraining]:
    """The first lines of an axis, as many as a reader can follow."""
    kept = list(dict.fromkeys(_line_label(r, group) for r in group))[:MOST_LINES]
    return [r for r in group if _line_label(r, group) in kept]


def _line_label(result: ValueTraining, group: Sequence[ValueTraining]) -> str:
    counts = {r.training.point.workers for r in group}
    parts = [count(result.training.point.workers, "worker")] if len(counts) > 1 or not result.rest else []
    return ", ".join([*([result.rest] if result.rest else []), *parts])


def _lines(
    sheet: Sheet,
    panel: Axes,
    label: str,
    quantity: Quantity,
    lines: dict[str, list[tuple[float, PointTraining]]],
    where: Callable[[PointTraining], str],
    order: Sequence[str] = (),
) -> None:
    share = label.endswith("accuracy")
    heights: list[float] = []
    for index, (name, members) in enumerate(lines.items()):
        look = style(order.index(name) if order else index)
        drawn = [(x, p, value) for x, p in sorted(members, key=lambda m: m[0]) if (value := quantity(p)) is not None]
        if not drawn:
            continue
        xs, values = [x for x, *_ in drawn], [value.value for *_, value in drawn]
        (line,) = panel.plot(xs, values, **look.curve, label=name)
        heights += values + interval_bars(panel, ((x, v.low, v.high) for x, _, v in drawn), look.color, alpha=0.38)
        if sheet.labels:
            sheet.handles[name] = line
        hollow_marks(panel, [(x, v.value) for x, p, v in drawn if _missed(label, p)], look)
        for x, p, value in drawn:
            spoken = formatting.percent(value.value) if share else f"{value.value:,.4g}"
            sheet.tip(panel, x, value.value, f"{name}, {where(p)}: {label} {spoken}")
    panel.set_ylabel(label)
    if share:
        _shares(panel, heights)
    elif min(heights) > 0 and max(heights) >= LOG_FROM * min(heights):
        axis.log_axis(panel, "y", min(heights), max(heights), axis.short)
    else:
        axis.linear_axis(panel, "y", 0, max(heights) * 1.06 or 1, axis.short)


def _shares(panel: Axes, heights: Sequence[float]) -> None:
    air = max(0.01, (max(heights) - min(heights)) * 0.08)
    low, high = max(0.0, min(heights) - air), max(heights) + air
    axis.linear_axis(panel, "y", low, high, axis.percent)
    if high > 1:
        level_line(panel, 1)


def _value_axis(panel: Axes, group: Sequence[ValueTraining]) -> dict[str, float]:
    """Where each value is: in proportion for numbers, on a log scale where they are far apart, else side by side."""
    values = list({spelled_axis(r.value): r.value for r in group}.values())
    names = [spelled_axis(value) for value in values]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        places = dict(zip(names, map(float, range(len(names))), strict=True))
        axis.category_limits(panel, len(names), least=2)
    else:
        places = dict(zip(names, numbers, strict=True))
        low, high = min(numbers), max(numbers)
        if low > 0 and high >= LOG_FROM * low:
            panel.set_xscale("log")
            air = (high / low) ** 0.06
            panel.set_xlim(low / air, high * air)
        else:
            air = (high - low) * 0.06
            panel.set_xlim(low - air, high + air)
    axis.fixed_ticks(panel, "x", list(places.values()), [axis.folded(name) for name in names])
    return places
