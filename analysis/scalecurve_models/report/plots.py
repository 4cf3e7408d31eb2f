"""The plots that the models add to a report, registered by their import: of a curve here, the others beside it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from scalecurve.render import formatting
from scalecurve.reporting.drawing import WIDE_PANEL, Drawing, Sheet, Style, axis, first, level_line, style, theme
from scalecurve.reporting.drawing.scales import percent_scale
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import is_informative
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count
from scalecurve_models.comparison.compare_models import HELD_OUT, LEFT_OUT, CostBasis, ModelCurve, SeriesComparison
from scalecurve_models.comparison.published import PublishedCurve
from scalecurve_models.optimus.speed import EQUATIONS
from scalecurve_models.paleo.paleo_fit import PALEO
from scalecurve_models.report import collectives, learning_curves
from scalecurve_models.report.beside_paleo import MODELS, compare_paleo
from scalecurve_models.report.model_results import model_results

__all__ = ["collectives", "learning_curves"]
MOST_PALEO = 6
_BESIDE = "Dots are measured; marks with lines are predictions. {} has nothing fitted; the table has the errors."

Quantity = Callable[[CostBasis, float, int], float | None]
MOST_PANELS = 8
LINEAR = "linear"
_MOST_EFFICIENCY = 1.6
_DODGE = 0.05
_BLIND = (
    "Dots are measured. Hollow marks are predictions of a point by a fit without it; lines are fits to all points. The "
    "thick line is the best model, its band for a new run; where models are not separable there is none."
)
_WIDTHS = (2.4, 1.1)  # of own curves, and of those of others
_PUBLISHED = (
    "Thick: measured here, relative to its own baseline. All others were published by others, with other hardware, "
    "software and batches, each relative to its own smallest count; single marks are published efficiencies. They show "
    "what was reached elsewhere and do not validate the measured curve. Sources are in the table."
)
_SERVERS = (
    "Marks are measured medians; lines are {} of Optimus (EuroSys 2018): the median steps to the target over the speed "
    "that the equation, fitted to the same runs, gives at each worker count{}."
)


@plot("paleo-throughput", section="paleo", order=10)
def throughput(analysis: Analysis) -> Drawing | None:
    """Draw samples/s of all workers."""
    return _paleo_comparison(analysis, "Throughput, predicted and measured", "Samples/s", lambda basis, rate, n: rate)


@plot("paleo-run-time", section="paleo", order=20)
def run_time(analysis: Analysis) -> Drawing | None:
    """Draw the run time of the training, an epoch or a million samples."""
    return _paleo_comparison(
        analysis, "Run time, predicted and measured", "Run time of {} (s)", lambda b, rate, n: b.seconds(rate)
    )


@plot("paleo-cost", section="paleo", order=30)
def cost(analysis: Analysis) -> Drawing | None:
    """Draw the cost of the training, an epoch or a million samples, where there is a price."""
    return _paleo_comparison(
        analysis, "Cost, predicted and measured", "Cost of {} ({})", lambda b, rate, n: b.cost(rate, n)
    )


def _paleo_comparison(analysis: Analysis, title: str, label: str, quantity: Quantity) -> Drawing | None:
    curves = [(name, each) for name, each in analysis.once(compare_paleo).curves if _values(each, "", quantity)]
    curves = curves[:MOST_PALEO]
    if not curves:
        return None
    models = [model for model in MODELS if any(_values(each, model, quantity) for _, each in curves)]
    sheet = Sheet(len(curves), ["measured", *models])
    sheet.handles["measured"] = Line2D([], [], color=theme.INK, marker="o", linestyle="none", label="measured")
    for panel, (_, each) in zip(sheet.panels, curves, strict=True):
        values = {model: _values(each, model, quantity) for model in ("", *models)}
        counts = sorted({n for points in values.values() for n, _ in points})
        axis.workers_axis(panel, counts)
        for index, model in enumerate(models):
            if values[model]:
                look = style(index)
                (sheet.handles[model],) = panel.plot(
                    *zip(*values[model], strict=True), **{**look.curve, "linestyle": look.line}, label=model, zorder=3
                )
        panel.plot(*zip(*values[""], strict=True), "o", color=theme.INK, zorder=5)
        heights = [value for points in values.values() for _, value in points]
        axis.log_axis(panel, "y", min(heights), max(heights), axis.short)
    sheet.name_panels([name for name, _ in curves], [""] * len(curves))
    bases = {each.cost_basis.title: each.cost_basis.currency for _, each in curves}
    work, currency = next(iter(bases.items())) if len(bases) == 1 else ("each curve's work", "")
    sheet.panels[0].set_ylabel(label.format(work, currency))
    return sheet.drawing(title, _BESIDE.format(PALEO))


def _values(compared: SeriesComparison, model: str, quantity: Quantity) -> list[tuple[int, float]]:
    """(workers, value) of a model, or of the measurement where none is named."""
    if not model:
        points = [(n, quantity(compared.cost_basis, rate, n)) for n, rate in compared.measured]
    else:
        of_model = next((one for one in compared.prediction.models if one.name == model and one.predict), None)
        if of_model is None or of_model.predict is None:
            return []
        counts = [n for n, _ in compared.measured]
        points = [(n, quantity(compared.cost_basis, of_model.predict(n).value, n)) for n in counts]
    return [(n, value) for n, value in points if value is not None]


@plot("predicted", section="predicted", order=10)
def predicted(analysis: Analysis) -> Drawing | None:
    """Draw every model on every curve of more than one point."""
    curves = analysis.once(model_results).shown
    if not curves:
        return None
    shown, omitted = first(curves, MOST_PANELS, "curves")
    several = len({each.series.bundle for each in curves}) > 1
    names = list(dict.fromkeys(model.name for each in curves for model in each.prediction.models))
    drawn = [name for name in names if name != LINEAR and any(_curve(each, name) for each in shown)]
    sheet = Sheet(len(shown), ["measured", *drawn])
    for panel, each in zip(sheet.panels, shown, strict=True):
        _panel(panel, each, {name: style(index) for index, name in enumerate(drawn)})
    before = [f"{each.series.bundle}: " if several else "" for each in shown]
    sheet.name_panels([each.series.name for each in shown], before)
    sheet.panels[0].set_ylabel("Efficiency")
    sheet.handles["measured"] = Line2D([], [], color=theme.INK, marker="o", linestyle="none", label="measured")
    for index, name in enumerate(drawn):
        look = style(index)
        sheet.handles[name] = Line2D(
            [], [], color=look.color, linestyle=look.line, marker=look.marker, mfc=theme.PAPER, label=name
        )
    return sheet.drawing("Predicted vs. measured", _BLIND + omitted)


def _panel(axes: Axes, comparison: SeriesComparison, looks: dict[str, Style]) -> None:
    measured = dict(comparison.measured)
    base = comparison.series.baseline if comparison.series.baseline in measured else min(measured)
    one = measured[base] / base

    def share(workers: float, rate: float) -> float:
        return rate / workers / one

    axis.workers_axis(axes, list(measured))
    level_line(axes, 1)
    heights = [1.0, *(share(n, rate) for n, rate in measured.items())]
    for order, (name, look) in enumerate(looks.items()):
        curve = _curve(comparison, name)
        if curve is None:
            continue
        last = max(measured)
        known = [(n, share(n, rate)) for n, rate in zip(curve.workers, curve.throughput, strict=True) if n <= last]
        width = 2.4 if curve.best else 1.0
        axes.plot(*zip(*known, strict=True), color=look.color, linestyle=look.line, linewidth=width, zorder=2)
        if curve.leads:
            heights += [y for _, y in known]
        if curve.best:
            _band(axes, curve, share, look)
        shift = 2 ** (_DODGE * (order - (len(looks) - 1) / 2))
        blind = [
            (row.workers * shift, share(row.workers, row.predicted))
            for row in comparison.rows
            if row.model == name and row.predicted is not None and row.how in (LEFT_OUT, HELD_OUT)
        ]
        heights += [y for _, y in blind]
        if blind:
            hollow: Any = {"color": look.color, "marker": look.marker, "mfc": theme.PAPER, "linestyle": "none"}
            axes.plot(*zip(*blind, strict=True), **hollow, zorder=4)
    axes.plot(list(measured), [share(*item) for item in measured.items()], "o", color=theme.INK, zorder=5)
    inside = [min(_MOST_EFFICIENCY, height) for height in heights]
    low, high = min(inside), max(inside)
    air = max(0.01, (high - low) * 0.08)
    axis.linear_axis(axes, "y", max(0.0, low - air), high + air, lambda value: f"{round(value * 100, 1):g} %")


def _band(axes: Axes, curve: ModelCurve, share: Any, look: Style) -> None:
    ends = [
        (n, share(n, low), share(n, min(high, 10 * rate)))
        for n, rate, low, high in zip(curve.workers, curve.throughput, curve.low, curve.high, strict=True)
        if low is not None and high is not None and is_informative(low, high)
    ]
    if ends:
        places, low, high = ([end[side] for end in ends] for side in range(3))
        axes.fill_between(places, low, high, color=look.color, alpha=0.18, linewidth=0, zorder=1)


def _curve(comparison: SeriesComparison, name: str) -> ModelCurve | None:
    return next((curve for curve in comparison.curves if curve.model == name), None)


@plot("published", section="published", order=10)
def published_curves(analysis: Analysis) -> Drawing | None:
    """Draw weak efficiency over the worker count, measured and published."""
    published = analysis.once(model_results).published
    own = [
        series
        for series in analysis.scaling.series
        if series.mode is Mode.weak and sum(p.efficiency is not None for p in series.points) > 1
    ]
    if not published or not own:
        return None
    several = len({series.bundle for series in own}) > 1
    here = {
        f"measured: {series.bundle + ', ' if several else ''}{series.name}": [
            (p.workers, p.efficiency.value) for p in series.points if p.efficiency is not None
        ]
        for series in own
    }
    return draw_published(published, here, _PUBLISHED)


def draw_published(
    published: Sequence[PublishedCurve], measured: Mapping[str, list[tuple[int, float]]], caption: str
) -> Drawing:
    """Draw weak efficiency over the worker count of published curves, and of ``measured`` ones by their labels."""
    networks = len({curve.network for curve in published}) > 1
    named = list(measured)
    others = [f"{curve.title}{' (' + curve.network + ')' if networks else ''}" for curve in published]
    sheet = Sheet(labels=[*named, *others], width=WIDE_PANEL)
    (axes,) = sheet.panels
    counts, heights = [], []
    here = list(measured.values())
    there = [[(n, efficiency) for n, _, efficiency in curve.points] for curve in published]
    for index, (label, points) in enumerate(zip([*named, *others], [*here, *there], strict=True)):
        look = style(index if index < len(measured) else index - len(measured))
        (line,) = axes.plot(*zip(*points, strict=True), marker=look.marker, label=label)
        if index < len(measured):
            line.set(color=theme.INK, linewidth=_WIDTHS[0], zorder=5)
        else:
            line.set(color=look.color, linestyle=theme.DASHES[2], linewidth=_WIDTHS[1], mfc="none", zorder=3)
        sheet.handles[label] = line
        counts += [n for n, _ in points]
        heights += [y for _, y in points]
    axis.workers_axis(axes, counts)
    percent_scale(axes, (), heights)
    level_line(axes, 1)
    axes.set_ylabel("Efficiency, weak scaling")
    axes.set_xlabel("Workers (accelerators)")
    return sheet.drawing("Published curves", caption)


@plot("time-with-servers", section="learning", order=30)
def time_with_servers(analysis: Analysis) -> Drawing | None:
    """Draw the time to the target of the first program whose servers were varied and whose runs reached it."""
    programs = [program for program in analysis.once(model_results).served if len(program.servers) > 1]
    program = next((one for one in programs if any(point.to_target_s for point in one.points)), None)
    if program is None:
        return None
    counts = sorted({point.workers for point in program.points})
    labels = [count(servers, "server") for servers in program.servers]
    equation = EQUATIONS[program.kind]
    line_label = f"{equation.number} of Optimus: steps / f"
    sheet = Sheet(labels=[*labels, line_label])
    (axes,) = sheet.panels
    heights: list[float] = []
    errors: list[float] = []
    for index, (label, servers) in enumerate(zip(labels, program.servers, strict=True)):
        look = style(index)
        points = [p for p in program.points if p.servers == servers and p.to_target_s]
        marks = sorted((p.workers, p.to_target_s) for p in points if p.to_target_s)
        if marks:
            (sheet.handles[label],) = axes.plot(
                *zip(*marks, strict=True), color=look.color, marker=look.marker, linestyle="none", label=label
            )
            heights += [seconds for _, seconds in marks]
            by_equation = [(program.seconds(n, servers), seconds) for n, seconds in marks]
            errors += [abs(predicted / seconds - 1) for predicted, seconds in by_equation if predicted is not None]
        predicted = [(n, program.seconds(n, servers)) for n in range(counts[0], counts[-1] + 1)]
        known = [(n, seconds) for n, seconds in predicted if seconds is not None]
        if known:
            (line,) = axes.plot(*zip(*known, strict=True), color=look.color, linestyle=look.line)
            sheet.handles.setdefault(label, line)
            sheet.handles[line_label] = Line2D([], [], color=theme.INK, label=line_label)
            heights += [seconds for _, seconds in known]
    axis.workers_axis(axes, counts)
    axis.log_axis(axes, "y", min(heights), max(heights), axis.short)
    axes.set_ylabel("Training time to the target (s)")
    sheet.name_panels([equation.equation])
    off = f", off by {formatting.percent(sum(errors) / len(errors))} on average" if errors else ""
    return sheet.drawing("Time to the target with parameter servers", _SERVERS.format(equation.number, off))
