"""The report as one self-contained HTML page: no external script, font or image, and nothing that needs the script."""

import collections
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from scalecurve.render import formatting
from scalecurve.render.table import Column, Mark, Table
from scalecurve.reporting.content import Content
from scalecurve.reporting.trials import LOGS, PLACE, RECORD, TRIALS
from scalecurve.statistics.estimate import Estimate, RefusedNumber
from scalecurve_api.text import count

MOST_CAUTIONS = 3  # on the first screen; the others are with the warnings
VERBS = {
    "scaling": "status",
    "time": "explain",
    "cost": "cost",
    "accuracy": "training",
    "against-workers": "training",
    "training-axes": "training",
    "allreduce": "allreduce",
    "collectives": "collectives",
    "diagnosis": "diagnose",
    "learning": "fit",
    "models": "fit",
    "trials": "verify",
}
"""The verb that prints what a section shows."""
SHORT = 24  # text below this length stays on one line
TEMPLATE = "report.html.j2"

Place = tuple[str, str, int, str]
Links = Mapping[tuple[str, str], str]
"""(experiment, path of a record in its bundle) -> where the page finds it."""


def page(content: Content, records: Links = {}, beside: Mapping[str, list[tuple[str, str]]] = {}) -> str:  # noqa: B006
    """The page; all text from a bundle is escaped.

    ``beside`` are the files of a plot or table, by its name: (what to call it, where the page finds it).
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("scalecurve.reporting", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    folder = files("scalecurve.reporting")
    style, script = (Markup((folder / name).read_text()) for name in ("report.css", "report.js"))
    names = [plot.name for plot in content.plots] + [table.name for table in content.tables]
    linked = {name: beside.get(name, []) for name in (*names, "curve")}
    anchors = _anchors(content)
    return environment.get_template(TEMPLATE).render(
        content=content,
        heading=_heading(content),
        anchors=anchors,
        cells=lambda table: cells_of(table, records, anchors),
        percent=formatting.percent,
        workers=lambda number: count(number, "worker"),
        linked=linked,
        verbs=collections.defaultdict(str, VERBS),
        most_cautions=MOST_CAUTIONS,
        style=style,
        script=script,
    )


def _heading(content: Content) -> str:
    verb = "scale" if ", " in content.title else "scales"
    return f"How {content.title} {verb}" if content.answer.scales else content.title


def _anchors(content: Content) -> dict[Place, str]:
    """Where the page has the first trial of each point."""
    trials = next((table for table in content.tables if table.name == TRIALS), None)
    places = dict.fromkeys(place for place in _places(trials) if place) if trials else {}
    return {place: f"point-{number}" for number, place in enumerate(places, 1)}


def _places(table: Table) -> list[Place | None]:
    """The point of each row; None where the table is not about points."""
    names = [column.name for column in table.columns]
    if not {"experiment", *PLACE} <= set(names):
        return [None] * len(table.rows)
    at = [names.index(name) for name in ("experiment", *PLACE)]
    every = ([row[index] for index in at] for row in table.rows)
    return [(str(bundle), str(series), int(str(workers)), str(layout)) for bundle, series, workers, layout in every]


def cells_of(table: Table, records: Links = {}, anchors: Mapping[Place, str] = {}) -> dict[str, Any]:  # noqa: B006
    """A table for the template: headings, rows of (text, interval, class, link), the ids of rows, and notes."""
    shown = table.compact()
    experiments = [str(row[0]) for row in table.rows]
    rows = [
        [
            (*_parts(cell, text, column), _class(cell, column), _href(records, experiment, cell, column))
            for cell, text, column in zip(row, spelled, shown.columns, strict=True)
        ]
        for experiment, row, spelled in zip(experiments, shown.rows, shown.spelled(), strict=True)
    ]
    ids = [anchors.get(place, "") if place else "" for place in _places(table)]
    if table.name == TRIALS:
        ids = [anchor if anchor not in ids[:index] else "" for index, anchor in enumerate(ids)]
    else:
        at = next((index for index, column in enumerate(shown.columns) if column.name == "workers"), None)
        for row, anchor in zip(rows, ids, strict=True):
            if at is not None and anchor:
                row[at] = (*row[at][:3], f"#{anchor}")
        ids = [""] * len(ids)
    return {"columns": shown.columns, "rows": rows, "ids": ids, "notes": shown.notes}


def _href(records: Links, experiment: str, cell: object, column: Column) -> str:
    return records.get((experiment, str(cell)), "") if column.name in (RECORD, LOGS) else ""


def _parts(cell: object, text: str, column: Column) -> tuple[str, str]:
    return formatting.parted(cell, column.kind == "percent") if isinstance(cell, Estimate) else (text, "")


def _class(cell: object, column: Column) -> str:
    kind = "n" if column.numeric else "k" if isinstance(cell, str) and len(cell) < SHORT else ""
    return f"{kind} none".strip() if cell is None or isinstance(cell, Mark | RefusedNumber) else kind
