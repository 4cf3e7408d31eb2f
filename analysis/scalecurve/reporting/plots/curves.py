"""Plots over the worker count: throughput, speed-up, efficiency, time, cost, energy. Strong and weak side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scalecurve.curves.compute import Scaling, SeriesResult
from scalecurve.curves.cost import CostReport, PointCost
from scalecurve.curves.series_matching import identities
from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve.reporting.drawing.ideal_lines import Value, diagonal, hundred, inverse, proportional
from scalecurve.reporting.drawing.scales import in_sight, log_scale, percent_scale, ratio_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ideal = Callable[["Axes", SeriesResult, Value, str], list[float]]
Scale = Callable[["Axes", Sequence[SeriesResult], Sequence[float]], None]
_DODGE = 0.045
_GOES_ON = " A bar that reaches an edge of the figure goes on beyond it: its ends stand in the table."
_MODES = ("strong", "weak")
_TITLES = {"strong": "Strong scaling (same global batch)", "weak": "Weak scaling (same batch per worker)"}


def curves(result: Scaling, costs: CostReport, png: bool) -> Iterator[Plot]:
    """Every plot over the worker count that has something to show."""
    sheet = _Sheet(result, png)
    yield from sheet.draw(
        "throughput",
        "Throughput",
        f"Throughput ({sheet.unit}/s)",
        lambda p: p.throughput,
        "Samples over the wall time of the timed windows, all workers together; bars are intervals, "
        "thin lines go on from each baseline in proportion.",
        ideal=proportional,
    )
    if any(len({p.workers for p in series.points if p.speedup}) > 1 for series in result.series):
        yield from _speedups(sheet)
    by_point = {id(p.result): p for series in costs.series for p in series.points}
    yield from _costs(sheet, costs, by_point)
    yield from sheet.draw(
        "energy",
        "Energy",
        f"Energy (J/{sheet.unit.removesuffix('s')})",
        lambda p: p.energy_j,
        "What all devices used during the timed windows, by their own counters, over the samples.",
        dodge=True,
    )


def _speedups(sheet: _Sheet) -> Iterator[Plot]:
    yield from sheet.draw(
        "speedup",
        "Speed-up",
        "Speed-up",
        lambda p: p.speedup,
        "Throughput over that of the baseline; the dashed line is ideal.",
        ideal=diagonal,
        scale=ratio_scale,
    )
    yield from sheet.draw(
        "efficiency",
        "Efficiency",
        "Efficiency",
        lambda p: p.efficiency,
        "Speed-up over the growth of the worker count; 100 % is ideal; more is kept, and explained under the table.",
        ideal=hundred,
        scale=percent_scale,
        dodge=True,
    )


def _costs(sheet: _Sheet, costs: CostReport, by_point: dict[int, PointCost]) -> Iterator[Plot]:
    def of(name: str) -> Value:
        return lambda p: getattr(by_point[id(p)], name)

    epochs = {series.epochs for series in costs.series}
    total = epochs.pop() if len(epochs) == 1 else None
    yield from sheet.draw(
        "epoch",
        "Time of an epoch" + (" and of the whole training" if total else ""),
        "An epoch (s)",
        of("epoch_s"),
        "Samples of the data set over throughput; thin lines are ideal."
        + (f" The right axis is the same for {total:,} epochs." if total else ""),
        ideal=inverse,
        right=(f"{total:,} epochs (h)", total / 3600) if total else None,
    )
    currencies = sorted({series.currency for series in costs.series if series.currency})
    if currencies:
        whole = all(p.epoch_cost is not None for p in by_point.values() if p.result.measured)
        money = "/".join(currencies)
        yield from sheet.draw(
            "cost",
            "Cost",
            f"Cost of an epoch ({money})" if whole else f"Cost of a million {sheet.unit} ({money})",
            of("epoch_cost" if whole else "per_million"),
            "Workers times hours times price; the lowest point is the cheapest count, a level line would be ideal.",
            dodge=True,
        )


class _Sheet:
    """Draws one quantity of every series, a panel for each mode, all panels on one scale."""

    def __init__(self, result: Scaling, png: bool) -> None:
        self.result = result
        self.png = png
        self.identity = identities(result.series)
        units = {series.sample_unit for series in result.series}
        self.unit = units.pop() if len(units) == 1 else "samples"

    def draw(
        self,
        name: str,
        title: str,
        label: str,
        value: Value,
        caption: str,
        ideal: Ideal | None = None,
        scale: Scale = log_scale,
        right: tuple[str, float] | None = None,
        dodge: bool = False,
    ) -> Iterator[Plot]:
        shown = [series for series in self.result.series if any(value(p) for p in series.points)]
        if not shown:
            return
        modes = [mode for mode in _MODES if any(series.mode == mode for series in shown)]
        labels = list(dict.fromkeys(self.identity[s.bundle, s.name].label for s in shown))
        named = [text for text in labels if text] if len(labels) > 1 or labels[0] else []
        columns, rows = canvas.legend_shape(named, canvas.figure_width(len(modes), 2))
        figure, axes = canvas.panels(len(modes), 2, rows, right=canvas.RIGHT_AXIS if right else canvas.RIGHT)
        known = [v for series in shown for p in series.points if (v := value(p))]
        heights, cut = in_sight(known)
        handles: dict[str, object] = {}
        for panel, mode in zip(axes, modes, strict=True):
            of_mode = [series for series in shown if series.mode == mode]
            axis.workers_axis(panel, [p.workers for series in of_mode for p in series.points])
            for series in of_mode if ideal else ():
                heights += ideal(panel, series, value, self._look(series).color) if ideal else ()
            handles |= self._panel(panel, of_mode, value, dodge)
            panel.set_title(_TITLES[mode], loc="left")
        for panel in axes:
            scale(panel, shown, heights)
        axes[0].set_ylabel(label)
        if right:
            _right_axis(axes[-1], *right)
        if named:
            canvas.legend(figure, [handles[text] for text in labels], columns)
        yield canvas.finish(figure, name, title, caption + (_GOES_ON if cut else ""), self.png)

    def _look(self, series: SeriesResult) -> canvas.Style:
        return canvas.style(self.identity[series.bundle, series.name].index)

    def _panel(self, axes: Axes, shown: Sequence[SeriesResult], value: Value, dodge: bool) -> dict[str, object]:
        handles: dict[str, object] = {}
        for order, series in enumerate(shown):
            look = self._look(series)
            shift = 2 ** (_DODGE * (order - (len(shown) - 1) / 2)) if dodge and len(shown) < 9 else 1
            known = [(p.workers * shift, v) for p in series.points if (v := value(p)) is not None]
            (line,) = axes.plot(
                [x for x, _ in known],
                [v.value for _, v in known],
                color=look.color,
                marker=look.marker,
                linestyle=look.line,
                label=self.identity[series.bundle, series.name].label or "measured",
                zorder=3,
            )
            bars = [(x, v.low, v.high) for x, v in known if v.low is not None and v.high is not None and v.low < v.high]
            if bars:
                axes.vlines(*zip(*bars, strict=True), color=look.color, linewidth=3.4, alpha=0.38, zorder=2)
            handles[self.identity[series.bundle, series.name].label] = line
        return handles


def _right_axis(axes: Axes, label: str, factor: float) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    def forth(value: Any) -> Any:
        return value * factor

    def back(value: Any) -> Any:
        return value / factor

    low, high = axes.get_ylim()
    other = axes.secondary_yaxis("right", functions=(forth, back))
    ticks = axis.round_ticks(low * factor, high * factor)
    other.yaxis.set_major_locator(FixedLocator(ticks))
    other.yaxis.set_major_formatter(FixedFormatter([axis.short(tick) for tick in ticks]))
    other.yaxis.set_minor_locator(NullLocator())
    other.set_ylabel(label)
