"""Cost against time: one mark per worker count, and the Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.curves.cost import SeriesCost, pareto_front
from scalecurve.render import formatting
from scalecurve.render.labels import brief, shortened
from scalecurve.reporting.drawing import WIDE_PANEL, Drawing, Sheet, axis, style
from scalecurve.reporting.drawing.marks import hollow_marks
from scalecurve.reporting.drawing.scales import ends
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.reporting.theme import FAINT
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.text import count

_CAPTION = (
    "Each mark is a worker count; bars are intervals of its time and cost, which grow together. Left is faster, down "
    "is cheaper. The line joins the Pareto-optimal counts: no other count is both faster and cheaper. Pale marks are "
    "dominated."
)
_TARGET_CAPTION = (
    " Training time to the target accuracy, without evaluation; of counts at which some repetition missed the target "
    "none is on the line, and their marks without filling are of the others."
)
_BEATEN = 0.35
_NUMBER = 0.04  # of the height, for a number under the lowest mark or over the highest
_MILLION = 1e6
_UNITS = ((7200.0, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))


@dataclass(frozen=True)
class _Mark:
    """A worker count with its seconds and its money, or what stands for it; ``partly`` where some runs have neither."""

    workers: int
    time: Estimate
    money: Estimate
    partly: bool = False


@plot("pareto", section="cost", order=30)
def pareto(analysis: Analysis) -> Drawing | None:
    """Of the full training, an epoch or a million samples: the most that is known for every curve."""
    shown = [series for series in analysis.costs.series if series.front and len(series.series.measured) > 1]
    if not shown or len({series.currency for series in shown}) != 1:
        return None
    unit, samples = _work(shown)
    marks = [_marks(series, samples[index]) for index, series in enumerate(shown)]
    return _draw(
        "Cost against time", shown, marks, f"Time of {unit}", f"Cost of {unit} ({shown[0].currency})", _CAPTION
    )


@plot("pareto-to-target", section="cost", order=35)
def pareto_to_target(analysis: Analysis) -> Drawing | None:
    """Of training to a fixed accuracy: money where there is a price, else the workers' time; None without a target."""
    currencies = {series.currency for series in analysis.costs.series}
    money = currencies.pop() if len(currencies) == 1 else None
    drawn = [(series, _target_marks(series, priced=money is not None)) for series in analysis.costs.series]
    drawn = [(series, marks) for series, marks in drawn if len(marks) > 1]
    if not drawn:
        return None
    shown, marks = [series for series, _ in drawn], [marks for _, marks in drawn]
    cost = f"Cost to the target ({money})" if money else "Workers × time (s)"
    return _draw(
        "Cost against time to the target", shown, marks, "Time to the target", cost, _CAPTION + _TARGET_CAPTION
    )


def _draw(
    title: str, shown: Sequence[SeriesCost], marks: Sequence[Sequence[_Mark]], x: str, y: str, caption: str
) -> Drawing:
    several = len({series.series.bundle for series in shown}) > 1
    short = brief([curve.series.name for curve in shown], [curve.series.mode.value for curve in shown])
    names = [short[curve.series.name] for curve in shown]
    labels = [f"{c.series.bundle}, {name}" if several else name for c, name in zip(shown, names, strict=True)]
    sheet = Sheet(labels=labels, width=WIDE_PANEL)
    (axes,) = sheet.panels
    longest = max(mark.time.value for line in marks for mark in line)
    factor, unit = next((factor, unit) for least, factor, unit in _UNITS if longest >= least)
    for index, (label, line) in enumerate(zip(labels, marks, strict=True)):
        look = style(index)
        best = pareto_front([(mark.workers, mark.time, mark.money) for mark in line if not mark.partly])
        front = sorted((mark for mark in line if mark.workers in best), key=lambda mark: mark.time.value)
        beaten = [mark for mark in line if mark.workers not in best]
        (sheet.handles[label],) = axes.plot(*_places(front, factor), **look.curve, label=label, zorder=3)
        axes.plot(*_places(beaten, factor), **{**look.curve, "linestyle": "none"}, alpha=_BEATEN)
        hollow_marks(axes, list(zip(*_places([mark for mark in line if mark.partly], factor), strict=True)), look)
        for mark in line:
            at = mark.time.value / factor, mark.money.value
            bar = sorted(end / factor for end in ends(mark.time)), sorted(ends(mark.money))
            if len(bar[0]) == len(bar[1]) > 1:
                axes.plot(*bar, color=look.color, linewidth=3.4, alpha=0.3)
            above = 5 if index % 2 == 0 else -13  # where curves meet, their numbers do not
            axes.annotate(str(mark.workers), at, (6, above), textcoords="offset points", color=look.color)
            spoken = f"{formatting.interval(mark.time)} s, {formatting.interval(mark.money)}"
            sheet.tip(axes, *at, f"{label}, {count(mark.workers, 'worker')}: {spoken}")
    every = [mark for line in marks for mark in line]
    seconds = [end / factor for mark in every for end in ends(mark.time)]
    amounts = [end for mark in every for end in ends(mark.money)]
    axis.log_axis(axes, "x", min(seconds), max(seconds), axis.short)
    low, high = min(amounts), max(amounts)
    room = (high / low) ** _NUMBER
    axis.log_axis(axes, "y", low / room, high * room, axis.short)
    axes.set_xlabel(f"{x} ({unit})")
    axes.set_ylabel(y)
    axes.set_title("Numbers are workers", loc="right", fontsize=8, fontweight="normal", color=FAINT)
    _, note = shortened(curve.series.name for curve in shown)
    return sheet.drawing(title, f"{caption} {note}".strip())


def _work(shown: Sequence[SeriesCost]) -> tuple[str, list[float]]:
    if all(curve.dataset_samples and curve.epochs for curve in shown):
        return "the full training", [float((curve.dataset_samples or 0) * (curve.epochs or 0)) for curve in shown]
    if all(curve.dataset_samples for curve in shown):
        return "an epoch", [float(curve.dataset_samples or 0) for curve in shown]
    units = {curve.series.sample_unit for curve in shown}
    return f"a million {units.pop() if len(units) == 1 else 'samples'}", [_MILLION] * len(shown)


def _marks(series: SeriesCost, samples: float) -> list[_Mark]:
    return [
        _Mark(
            p.result.workers,
            p.result.throughput.reciprocal().scaled(samples),
            p.per_million.scaled(samples / _MILLION),
        )
        for p in series.points
        if p.result.throughput is not None and p.per_million is not None
    ]


def _target_marks(series: SeriesCost, priced: bool) -> list[_Mark]:
    marks = []
    for p in series.points:
        time = p.result.to_target_s
        money = p.target_cost if priced else time and time.scaled(p.result.workers)
        if time is not None and money is not None:
            marks.append(_Mark(p.result.workers, time, money, bool(p.result.missed_target)))
    return marks


def _places(marks: Sequence[_Mark], factor: float) -> tuple[list[float], list[float]]:
    return [mark.time.value / factor for mark in marks], [mark.money.value for mark in marks]
