"""The rounds of a search in a report."""

from scalecurve.features.search.bundle_file import SEARCH
from scalecurve.features.search.tables import search_in_words, search_table
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body, section


@section("search", "Search", order=17, question="scale")
def _search(analysis: Analysis) -> Body:
    records = [(bundle.label, bundle.companion(SEARCH)) for bundle in analysis.bundles]
    searched = [(label, record) for label, record in records if record is not None]
    several = len(analysis.bundles) > 1
    lines = [f"{label}: {line}" if several else line for label, record in searched for line in search_in_words(record)]
    return Body(tuple(search_table(record) for _, record in searched), sentences=tuple(lines))
