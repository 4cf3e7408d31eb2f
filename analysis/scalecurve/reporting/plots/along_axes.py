"""Throughput over the values of each axis, a line for every worker count: batch, depth, algorithm, whatever varies."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from scalecurve.curves.along_axes import ValueResult, spelled
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, style
from scalecurve.reporting.findings import Analysis, axis_results
from scalecurve.reporting.registry import plot
from scalecurve_api.text import count

MOST_AXES = 4
_CAPTION = "Every value of an axis at the usual values of the others, all workers together; bars are intervals."


@plot("axes", section="axes", order=10)
def along_axes(analysis: Analysis) -> Drawing | None:
    """One panel an axis; None where nothing but the worker count varies."""
    results = [result for result in analysis.once(axis_results) if not result.rest]
    panels = list(dict.fromkeys((result.bundle, result.axis) for result in results))
    if not panels:
        return None
    shown, omitted = first(panels, MOST_AXES, "axes")
    several = len(analysis.bundles) > 1
    workers = sorted({result.workers for result in results})
    sheet = Sheet(len(shown), [count(number, "worker") for number in workers] if len(workers) > 1 else [])
    for panel, key in zip(sheet.panels, shown, strict=True):
        of_axis = [result for result in results if (result.bundle, result.axis) == key]
        _panel(sheet, panel, of_axis, workers)
        panel.set_title(f"{key[0]}: {key[1]}" if several else key[1], loc="left")
        panel.set_ylabel("Throughput (1/s)")
    return sheet.drawing("Throughput along each axis", _CAPTION + omitted)


def _panel(sheet: Sheet, panel: Axes, results: Sequence[ValueResult], workers: Sequence[int]) -> None:
    values = list(dict.fromkeys(result.value for result in results))
    places: dict[Any, float] = {value: float(index) for index, value in enumerate(values)}
    for index, number in enumerate(workers):
        row = [result for result in results if result.workers == number]
        if not row:
            continue
        look, label = style(index), count(number, "worker")
        points = [(places[result.value], result.throughput) for result in row]
        (line,) = panel.plot([x for x, _ in points], [rate.value for _, rate in points], **look.curve, label=label)
        interval_bars(panel, ((x, rate.low, rate.high) for x, rate in points), look.color, alpha=0.38)
        if sheet.labels:
            sheet.handles[label] = line
        for result, (x, rate) in zip(row, points, strict=True):
            sheet.tip(panel, x, rate.value, f"{spelled(result.value)}, {label}: {rate.value:,.4g}/s, {result.verdict}")
    heights = [end for r in results for end in (r.throughput.value, r.throughput.low, r.throughput.high) if end]
    axis.log_axis(panel, "y", min(heights), max(heights), axis.short)
    axis.fixed_ticks(panel, "x", list(places.values()), [axis.folded(spelled(value)) for value in values])
    axis.category_limits(panel, len(values), least=2)
