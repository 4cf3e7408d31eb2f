"""Plots over the worker count: throughput, speed-up, efficiency, time, cost, energy. Strong and weak side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult
from scalecurve.curves.series_matching import Identity, identities
from scalecurve.reporting.answer import place_of, point_in_words
from scalecurve.reporting.drawing import Drawing, Sheet, axis, interval_bars, style
from scalecurve.reporting.drawing.marks import (
    Value,
    diagonal,
    hollow_caption,
    hollow_marks,
    hundred,
    inverse_proportional,
    proportional,
)
from scalecurve.reporting.drawing.scales import in_sight, log_scale, percent_scale, ratio_scale
from scalecurve.reporting.drawing.sheet import RIGHT, RIGHT_AXIS
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.prices import MILLION
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.scaling import Mode

Ideal = Callable[[Axes, SeriesResult, Value, str], list[float]]
Scale = Callable[[Axes, Sequence[SeriesResult], Sequence[float]], None]
_GOES_ON = " A bar that touches the edge extends beyond it; the table has its ends."
_TITLES = {"strong": "Strong scaling (same global batch)", "weak": "Weak scaling (same batch per worker)"}


@dataclass(frozen=True)
class _Quantity:
    """One quantity of every series, a panel for each mode, all panels on one scale.

    ``right`` is a second axis: its label and its factor.
    """

    title: str
    label: str
    value: Value
    caption: str
    ideal: Ideal | None = None
    scale: Scale = log_scale
    right: tuple[str, float] | None = None


@plot("speedup", section="scaling", order=10)
def speedup(analysis: Analysis) -> Drawing | None:
    """Where any series has two points to compare."""
    if not _has_comparison(analysis):
        return None
    caption = "Throughput relative to the baseline; the dashed line is ideal."
    quantity = _Quantity("Speed-up", "Speed-up", lambda p: p.speedup, caption, diagonal, ratio_scale)
    return _draw(analysis.curves, quantity)


@plot("efficiency", section="scaling", order=20)
def efficiency(analysis: Analysis) -> Drawing | None:
    """Where any series has two points to compare."""
    if not _has_comparison(analysis):
        return None
    caption = "Speed-up divided by the growth in workers; 100 % is ideal, higher values are explained under the table."
    quantity = _Quantity("Efficiency", "Efficiency", lambda p: p.efficiency, caption, hundred, percent_scale)
    return _draw(analysis.curves, quantity)


@plot("throughput", section="scaling", order=30)
def throughput(analysis: Analysis) -> Drawing | None:
    """All workers together."""
    caption = (
        "Samples divided by wall time of the timed windows, all workers together. Bars are intervals; thin lines "
        "extrapolate each baseline proportionally."
    )
    label = f"Throughput ({_unit(analysis.curves)}/s)"
    return _draw(analysis.curves, _Quantity("Throughput", label, lambda p: p.throughput, caption, proportional))


@plot("step-time", section="time", order=5)
def step_time(analysis: Analysis) -> Drawing | None:
    """Where any series has two points to compare."""
    if not _has_comparison(analysis):
        return None
    caption = (
        "Time of one step (iteration), that of the slowest worker. Ideal is a flat line with the same batch per "
        "worker, and the thin line with the same global batch."
    )
    quantity = _Quantity("Step time over workers", "Step (ms)", _step_ms, caption, _ideal_step)
    return _draw(analysis.curves, quantity)


@plot("epoch", section="cost", order=10)
def epoch(analysis: Analysis) -> Drawing | None:
    """Of an epoch, with all epochs on the right where these are known; else of a million samples, of several points."""
    if not any(series.dataset_samples for series in analysis.costs.series):
        return _draw(analysis.costs.scaling, _million(analysis)) if _has_comparison(analysis) else None
    epochs = {series.epochs for series in analysis.costs.series}
    total = epochs.pop() if len(epochs) == 1 else None
    quantity = _Quantity(
        title="Epoch time" + (" and full training time" if total else ""),
        label="Epoch (s)",
        value=_cost_value(analysis, "epoch_s"),
        caption="Samples per epoch divided by throughput; thin lines are ideal."
        + (f" The right axis shows {total:,} epochs." if total else ""),
        ideal=inverse_proportional,
        right=(f"{total:,} epochs (h)", total / 3600) if total else None,
    )
    return _draw(analysis.costs.scaling, quantity)


def _million(analysis: Analysis) -> _Quantity:
    unit = _unit(analysis.curves)
    return _Quantity(
        title=f"Run time of a million {unit}",
        label=f"Run time of a million {unit} (s)",
        value=lambda p: p.throughput.reciprocal().scaled(MILLION) if p.throughput else None,
        caption="A million divided by throughput, since the size of an epoch is not known; thin lines are ideal.",
        ideal=inverse_proportional,
    )


@plot("cost", section="cost", order=20)
def cost(analysis: Analysis) -> Drawing | None:
    """Of an epoch where every point has that, else of a million samples; where there is a price."""
    currencies = sorted({series.currency for series in analysis.costs.series if series.currency})
    if not currencies:
        return None
    points = [p for series in analysis.costs.series for p in series.points if p.result.measured]
    by_epoch = all(p.epoch_cost is not None for p in points)
    money = "/".join(currencies)
    quantity = _Quantity(
        title="Cost",
        label=f"Cost per epoch ({money})" if by_epoch else f"Cost per million {_unit(analysis.curves)} ({money})",
        value=_cost_value(analysis, "epoch_cost" if by_epoch else "per_million"),
        caption="Workers × hours × price. The lowest point is the cheapest worker count; a flat line would be ideal.",
    )
    return _draw(analysis.costs.scaling, quantity)


@plot("energy", section="cost", order=40)
def energy(analysis: Analysis) -> Drawing | None:
    """Where devices count their energy."""
    caption = "Energy of all devices during the timed windows, from their own counters, per sample."
    label = f"Energy (J/{_unit(analysis.curves).removesuffix('s')})"
    return _draw(analysis.curves, _Quantity("Energy", label, lambda p: p.energy_j, caption))


def _has_comparison(analysis: Analysis) -> bool:
    return any(len({p.workers for p in series.points if p.speedup}) > 1 for series in analysis.curves.series)


def _step_ms(p: PointResult) -> Estimate | None:
    return p.step_s.scaled(1e3) if p.step_s else None


def _ideal_step(axes: Axes, series: SeriesResult, value: Value, color: str) -> list[float]:
    """A step shrinks with the batch of a worker, and stays where that stays."""
    return inverse_proportional(axes, series, value, color) if series.mode is Mode.strong else []


def _unit(curves: ScalingResult) -> str:
    units = {series.sample_unit for series in curves.series}
    return units.pop() if len(units) == 1 else "samples"


def _cost_value(analysis: Analysis, name: str) -> Value:
    values: dict[int, Estimate | None] = {
        id(p.result): getattr(p, name) for series in analysis.costs.series for p in series.points
    }
    return lambda p: values[id(p)]


def _draw(curves: ScalingResult, quantity: _Quantity) -> Drawing | None:
    value = quantity.value
    shown = [series for series in curves.series if any(value(p) for p in series.points)]
    if not shown:
        return None
    identity = identities(curves.series)
    modes = [mode for mode in _TITLES if any(series.mode == mode for series in shown)]
    labels = list(dict.fromkeys(identity[s.bundle, s.name].label for s in shown))
    named = [text for text in labels if text] if len(labels) > 1 or labels[0] else []
    sheet = Sheet(len(modes), named, right=RIGHT_AXIS if quantity.right else RIGHT)
    heights, cut = in_sight([v for series in shown for p in series.points if (v := value(p))])
    for panel, mode in zip(sheet.panels, modes, strict=True):
        of_mode = [series for series in shown if series.mode == mode]
        axis.workers_axis(panel, [p.workers for series in of_mode for p in series.points])
        if quantity.ideal:
            for series in of_mode:
                color = style(identity[series.bundle, series.name].index).color
                heights += quantity.ideal(panel, series, value, color)
        for order, series in enumerate(of_mode):
            own = identity[series.bundle, series.name]
            places = {p.workers: axis.dodged(panel, p.workers, order, len(of_mode)) for p in series.points}
            line, *marks = _line(panel, series, value, own, places)
            if named:
                sheet.handles[own.label] = line
                sheet.belongs(own.label, line, *marks)
            for p in series.points:
                if v := value(p):
                    sheet.tip(panel, places[p.workers], v.value, point_in_words(series, p), place_of(series, p))
        panel.set_title(_TITLES[mode], loc="left")
    for panel in sheet.panels:
        quantity.scale(panel, shown, heights)
    sheet.panels[0].set_ylabel(quantity.label)
    if quantity.right:
        _right_axis(sheet.panels[-1], *quantity.right)
    hollow = hollow_caption(p for series in shown for p in series.points)
    apart = " Series are moved apart a little." if len(shown) > len(modes) else ""
    return sheet.drawing(quantity.title, quantity.caption + apart + hollow + (_GOES_ON if cut else ""))


def _line(
    axes: Axes, series: SeriesResult, value: Value, identity: Identity, places: Mapping[int, float]
) -> list[Artist]:
    """The line, and what is drawn around it."""
    look, drawn = style(identity.index), set(axes.get_children())
    points = [(places[p.workers], v, bool(p.marks)) for p in series.points if (v := value(p)) is not None]
    (line,) = axes.plot(
        [x for x, *_ in points],
        [v.value for _, v, _ in points],
        **look.curve,
        label=identity.label or "measured",
        zorder=3,
    )
    hollow_marks(axes, [(x, v.value) for x, v, doubtful in points if doubtful], look)
    interval_bars(axes, ((x, v.low, v.high) for x, v, _ in points), look.color, alpha=0.38)
    return [line, *(artist for artist in axes.get_children() if artist not in drawn and artist is not line)]


def _right_axis(axes: Axes, label: str, factor: float) -> None:
    def forward(value: Any) -> Any:
        return value * factor

    def inverse(value: Any) -> Any:
        return value / factor

    low, high = axes.get_ylim()
    right = axes.secondary_yaxis("right", functions=(forward, inverse))
    linear = axes.get_yscale() == "linear"
    ticks = (axis.linear_ticks if linear else axis.round_ticks)(low * factor, high * factor)
    right.yaxis.set_major_locator(FixedLocator(ticks))
    right.yaxis.set_major_formatter(FixedFormatter([axis.short(tick) for tick in ticks]))
    right.yaxis.set_minor_locator(NullLocator())
    right.set_ylabel(label)
