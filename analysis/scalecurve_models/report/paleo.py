"""Paleo beside the measurement: the three charts of a report that is made for a device."""

from collections.abc import Callable

from matplotlib.lines import Line2D

from scalecurve.reporting.drawing import Drawing, Sheet, axis, style, theme
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve_models.comparison.compare_models import CostBasis, SeriesComparison
from scalecurve_models.paleo.paleo_fit import PALEO
from scalecurve_models.report.beside_paleo import MODELS, beside_paleo

MOST_PANELS = 6
_CAPTION = "Dots are measured; marks with lines are predictions. {} has nothing fitted; the table has the errors."

Quantity = Callable[[CostBasis, float, int], float | None]


@plot("paleo-throughput", section="paleo", order=10)
def throughput(findings: Findings) -> Drawing | None:
    """Samples/s of all workers."""
    return _draw(findings, "Throughput, predicted and measured", "Samples/s", lambda basis, rate, n: rate)


@plot("paleo-run-time", section="paleo", order=20)
def run_time(findings: Findings) -> Drawing | None:
    """Of the training, an epoch or a million samples."""
    return _draw(findings, "Run time, predicted and measured", "Run time of {} (s)", lambda b, rate, n: b.seconds(rate))


@plot("paleo-cost", section="paleo", order=30)
def cost(findings: Findings) -> Drawing | None:
    """Of the same work, where there is a price."""
    return _draw(findings, "Cost, predicted and measured", "Cost of {} ({})", lambda b, rate, n: b.cost(rate, n))


def _draw(findings: Findings, title: str, label: str, quantity: Quantity) -> Drawing | None:
    curves = [(name, each) for name, each in findings.once(beside_paleo).curves if _values(each, "", quantity)]
    curves = curves[:MOST_PANELS]
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
    return sheet.drawing(title, _CAPTION.format(PALEO))


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
