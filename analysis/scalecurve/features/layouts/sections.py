"""Layouts of parallelism in a report: the best at each worker count, and pipelines."""

from scalecurve.features.layouts.best_layout import BestLayout, best_in_words, best_layouts, layout_table
from scalecurve.features.layouts.causes import pipeline_table, pipelines, uneven_stages
from scalecurve.reporting.findings import Analysis, select_counted_series
from scalecurve.reporting.registry import Body, section


def layout_results(analysis: Analysis) -> tuple[BestLayout, ...]:
    """Find the best layout at each worker count, among points that count; of a search, the best of all its axes."""
    searched = {bundle.label for bundle in analysis.bundles if bundle.selected}
    series = select_counted_series(analysis)
    return (
        *best_layouts([one for one in series if one.bundle not in searched]),
        *best_layouts([one for one in series if one.bundle in searched], compared=lambda axis: True),
    )


@section("layouts", "Best layout", order=16, question="scale")
def _layouts(analysis: Analysis) -> Body:
    results = analysis.once(layout_results)
    return Body((layout_table(results),), sentences=tuple(best_in_words(results)))


@section("pipelines", "Pipelines", order=25, question="bend")
def _pipelines(analysis: Analysis) -> Body:
    results = pipelines(analysis.bundles)
    return Body((pipeline_table(results),), sentences=tuple(uneven_stages(results)))
