"""The report as one self-contained HTML page: no script, no external font, no external image."""

from typing import Any

from scalecurve.render import formatting
from scalecurve.render.table import Column, Mark, Table
from scalecurve.reporting.content import Content
from scalecurve.statistics import Estimate

SHORT = 24
"""Text below this length stays on one line."""
TEMPLATE = "report.html.j2"


def page(content: Content) -> str:
    """The page; all text from a bundle is escaped."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("scalecurve.reporting", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["inline"] = lambda plot: Markup(plot.inline())
    return environment.get_template(TEMPLATE).render(content=content, cells=_cells)


def _cells(table: Table) -> dict[str, Any]:
    """A table for the template: headings, rows of (text, interval, class), and notes."""
    shown = table.compact()
    rows = []
    for row, spelled in zip(shown.rows, shown.spelled(), strict=True):
        rows.append(
            [
                (*_parts(cell, text, column), _class(cell, column))
                for cell, text, column in zip(row, spelled, shown.columns, strict=True)
            ]
        )
    return {"columns": shown.columns, "rows": rows, "notes": shown.notes}


def _parts(cell: object, text: str, column: Column) -> tuple[str, str]:
    """The text of a cell, and the interval in small print under it."""
    return formatting.parted(cell, column.kind == "percent") if isinstance(cell, Estimate) else (text, "")


def _class(cell: object, column: Column) -> str:
    names = []
    if column.numeric:
        names.append("n")
    elif isinstance(cell, str) and len(cell) < SHORT:
        names.append("k")
    if cell is None or isinstance(cell, Mark):
        names.append("none")
    return " ".join(names)
