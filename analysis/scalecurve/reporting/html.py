"""The report as one HTML page that needs nothing else: no script, no font, no image from anywhere."""

from typing import Any

from scalecurve.render import formatting as spelling
from scalecurve.render.table import Column, Mark, Table
from scalecurve.reporting.content import Content
from scalecurve.statistics import Estimate

SHORT = 24
"""Text below this length stays on one line."""
TEMPLATE = "report.html.j2"


def page(content: Content) -> str:
    """The whole page; every word that comes from a bundle is escaped."""
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
    """A table as the template wants it: headings, rows of (text, interval, class), and notes."""
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
    """The text of a cell, and the interval that stands small under it."""
    return spelling.parted(cell, column.kind == "percent") if isinstance(cell, Estimate) else (text, "")


def _class(cell: object, column: Column) -> str:
    names = []
    if column.numeric:
        names.append("n")
    elif isinstance(cell, str) and len(cell) < SHORT:
        names.append("k")
    if cell is None or isinstance(cell, Mark):
        names.append("none")
    return " ".join(names)
