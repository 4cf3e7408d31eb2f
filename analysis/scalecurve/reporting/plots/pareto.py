"""Cost against time: one mark per worker count, and the Pareto front."""

from collections.abc import Sequence

from scalecurve.curves.cost import SeriesCost
from scalecurve.reporting.drawing import WIDE_PANEL, Drawing, Sheet, axis, style
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot

_CAPTION = (
    "Each mark is a worker count. Left is faster, down is cheaper. The line joins the Pareto-optimal counts: no "
    "other count is both faster and cheaper. Pale marks are dominated."
)
_BEATEN = 0.35
_MILLION = 1e6

Mark = tuple[int, float, float]  # workers, hours, money


@plot("pareto", section="cost", order=30)
def pareto(findings: Findings) -> Drawing | None:
    """Of the full training, an epoch or a million samples: the most that is known for every curve."""
    shown = [series for series in findings.costs.series if series.front and len(series.series.measured) > 1]
    if not shown or len({series.currency for series in shown}) != 1:
        return None
    unit, samples = _work(shown)
    several = len({series.series.bundle for series in shown}) > 1
    labels = [f"{curve.series.bundle}, {curve.series.name}" if several else curve.series.name for curve in shown]
    sheet = Sheet(labels=labels, width=WIDE_PANEL)
    (axes,) = sheet.panels
    every = []
    for index, (label, series) in enumerate(zip(labels, shown, strict=True)):
        look = style(index)
        marks = _marks(series, samples[index])
        front = sorted((mark for mark in marks if mark[0] in series.front), key=lambda mark: mark[1])
        (sheet.handles[label],) = axes.plot(*_places(front), **look.curve, label=label, zorder=3)
        if beaten := [mark for mark in marks if mark not in front]:
            axes.plot(*_places(beaten), **{**look.curve, "linestyle": "none"}, alpha=_BEATEN)
        for workers, hours, money in marks:
            above = 5 if index % 2 == 0 else -13  # where curves meet, their numbers do not
            axes.annotate(str(workers), (hours, money), (6, above), textcoords="offset points", color=look.color)
        every += marks
    for which, values in zip("xy", _places(every), strict=True):
        axis.log_axis(axes, which, min(values), max(values), axis.short)
    axes.set_xlabel(f"Time of {unit} (h)")
    axes.set_ylabel(f"Cost of {unit} ({shown[0].currency})")
    return sheet.drawing("Cost against time", _CAPTION)


def _work(shown: Sequence[SeriesCost]) -> tuple[str, list[float]]:
    if all(curve.dataset_samples and curve.epochs for curve in shown):
        return "the full training", [float((curve.dataset_samples or 0) * (curve.epochs or 0)) for curve in shown]
    if all(curve.dataset_samples for curve in shown):
        return "an epoch", [float(curve.dataset_samples or 0) for curve in shown]
    units = {curve.series.sample_unit for curve in shown}
    return f"a million {units.pop() if len(units) == 1 else 'samples'}", [_MILLION] * len(shown)


def _marks(series: SeriesCost, samples: float) -> list[Mark]:
    return [
        (p.result.workers, samples / p.result.throughput.value / 3600, p.per_million.value * samples / _MILLION)
        for p in series.points
        if p.result.throughput is not None and p.per_million is not None
    ]


def _places(marks: Sequence[Mark]) -> tuple[list[float], list[float]]:
    return [hours for _, hours, _ in marks], [money for _, _, money in marks]
