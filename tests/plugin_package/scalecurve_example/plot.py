"""A plot for the report."""

from __future__ import annotations

from scalecurve.reporting.drawing import Drawing, Sheet
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot


@plot("example", section="scaling", order=90)
def example(analysis: Analysis) -> Drawing | None:
    """A line."""
    sheet = Sheet()
    sheet.panels[0].plot([1, 2], [1, 2])
    return sheet.drawing("Example", "A line.")
