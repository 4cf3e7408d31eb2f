"""A static site over a history: an index of experiments and a page for each, written like the report.

No server and no script is needed to read it, pages refer to nothing outside of it, and the same history gives the same
bytes.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from scalecurve.render import formatting
from scalecurve.render.table import Table
from scalecurve.reporting.content import Plot
from scalecurve.reporting.drawing.render import plot_settings, render_all
from scalecurve.reporting.html import cells_of
from scalecurve.statistics.change_points import LEAST_SESSIONS
from scalecurve_api.files import Within
from scalecurve_api.text import count, few
from scalecurve_timelines.figure import timeline_figure
from scalecurve_timelines.tables import (
    changes_table,
    coincidences,
    days_between,
    groups_table,
    method_notes,
    points_table,
    relative,
    sessions_table,
)
from scalecurve_timelines.timeline import Curve, ExperimentTimeline, History, LevelShift, list_fact_names

_GROUPS = ("machine", "device", "version of torch", "version of tensorflow", "version of scalecurve", "engine_version")
_LONGEST_NAME = 80
_WORDS = {"throughput": ("slower", "faster"), "efficiency": ("less efficient", "more efficient")}


@dataclass(frozen=True)
class Page:
    """One experiment's page: its file in the site, and what is on it; tables with the files that have them as CSV."""

    name: str
    file: str
    subject: str
    sentences: tuple[str, ...]
    plot: Plot | None
    tables: tuple[tuple[Table, str], ...]
    sessions: int
    first: str
    last: str
    changes: int


def write_site(history: History, out: str | os.PathLike[str]) -> list[Path]:
    """Write the site into the folder ``out``: ``index.html``, a page for each experiment, and ``tables/*.csv``.

    Raises OSError when a file cannot be written.
    """
    # It warns about missing cache folders and fonts, which change no plot.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with plot_settings():
        pages = [
            _page(history, timeline, file) for timeline, file in zip(history.timelines, _files(history), strict=True)
        ]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("scalecurve_timelines", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    folder = files("scalecurve.reporting")
    style, script = (Markup((folder / name).read_text()) for name in ("report.css", "report.js"))
    environment.globals |= {"style": style, "script": script, "cells": cells_of}
    root = Within(Path(out))
    written = [_write(root / "index.html", _index(environment, history, pages))]
    for page in pages:
        written.append(_write(root / page.file, environment.get_template("experiment.html.j2").render(page=page)))
        for table, file in page.tables:
            written.append(_write(root / "tables" / file.rpartition("/")[2], table.csv()))
    return written


def _index(environment: jinja2.Environment, history: History, pages: Sequence[Page]) -> str:
    changed = sum(bool(page.changes) for page in pages)
    subject = (
        f"{count(len(pages), 'experiment')}, {count(sum(p.sessions for p in pages), 'session')} in "
        f"{count(history.bundles, 'bundle')}; {changed} with a change in {history.timelines[0].metric}"
        if pages
        else "nothing measured"
    )
    notes = (*method_notes(history), *history.notes)
    return environment.get_template("index.html.j2").render(pages=pages, subject=subject, notes=notes)


def _page(history: History, timeline: ExperimentTimeline, file: str) -> Page:
    alone = replace(history, timelines=(timeline,), notes=())
    facts = list_fact_names(timeline.sessions)
    groups = [groups_table(alone, name) for name in _GROUPS if name in facts]
    tables = [
        changes_table(alone),
        replace(points_table(alone), title="Every point now"),
        *(table for table in groups if len({row[3] for row in table.rows}) > 1),
        sessions_table(timeline, "Every session"),
    ]
    stem = file.removesuffix(".html")
    sessions = timeline.sessions
    return Page(
        name=timeline.experiment,
        file=file,
        subject=_subject(timeline),
        sentences=tuple(sentences(timeline)) or (_explain_no_change(timeline),),
        plot=render_all(f"{stem}-time", partial(timeline_figure, timeline), False, True),
        tables=tuple((table, f"tables/{stem}-{_slug(table.title)}.csv") for table in tables if table.rows),
        sessions=len(sessions),
        first=sessions[0].day,
        last=sessions[-1].day,
        changes=len(timeline.changes),
    )


def _subject(timeline: ExperimentTimeline) -> str:
    devices = dict.fromkeys(session.fact("device") for session in timeline.sessions)
    machines = {session.fact("machine") for session in timeline.sessions} - {""}
    parts = [
        f"{count(len(timeline.sessions), 'session')} from {timeline.sessions[0].day} to {timeline.sessions[-1].day}",
        f"{count(len(timeline.curves), 'point')}",
        few(filter(None, devices), 3),
        count(len(machines), "machine") if machines else "",
    ]
    return "; ".join(filter(None, parts))


def _explain_no_change(timeline: ExperimentTimeline) -> str:
    most = max((curve.sessions for curve in timeline.curves), default=0)
    if most < LEAST_SESSIONS:
        return f"{count(most, 'session')} at most of a point: too few to find a change ({LEAST_SESSIONS} are needed)."
    return f"No change of {timeline.metric} in {count(len(timeline.sessions), 'session')}."


def _files(history: History) -> list[str]:
    """A file name for each experiment: what a name may hold elsewhere is no path here."""
    taken = {"index"}
    names = []
    for timeline in history.timelines:
        stem = name = _slug(timeline.experiment)
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name)
        names.append(f"{name}.html")
    return names


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_NAME] or "experiment"


def _write(place: Within, text: str) -> Path:
    place.parent.make()
    place.write(text.encode())
    return place.path


@dataclass(frozen=True)
class TimelineEvent:
    """Changes with sessions in common from which on they may all have begun: `first` to `last`."""

    changes: tuple[tuple[Curve, LevelShift], ...]
    first: int
    last: int

    @property
    def worse(self) -> bool:
        return self.changes[0][1].ratio.value < 1


def events(timeline: ExperimentTimeline) -> list[TimelineEvent]:
    """Group the changes of a timeline, those that may be one together, in the order of time."""
    grouped: list[TimelineEvent] = []
    for curve, change in timeline.changes:
        for index, event in enumerate(grouped):
            first, last = max(event.first, change.first), min(event.last, change.last)
            if first <= last and event.worse == (change.ratio.value < 1):
                grouped[index] = TimelineEvent((*event.changes, (curve, change)), first, last)
                break
        else:
            grouped.append(TimelineEvent(((curve, change),), change.first, change.last))
    return sorted(grouped, key=lambda event: event.first)


def sentences(timeline: ExperimentTimeline) -> Iterator[str]:
    """Yield each event in words: what became of how many points, when, by how much, and what else changed."""
    for event in events(timeline):
        sizes = sorted(abs(change.ratio.value - 1) for _, change in event.changes)
        least, most = formatting.percent(sizes[0]), formatting.percent(sizes[-1])
        if len(event.changes) == 1:
            curve, change = event.changes[0]
            where = f"{curve.series} at {count(curve.workers, 'worker')}"
            by = formatting.interval(relative(change.ratio), as_percent=True)
        else:
            where = f"{len(event.changes)} of {count(len(timeline.curves), 'point')}"
            by = least if least == most else f"{least} to {most}"
        word = _WORDS[timeline.metric][not event.worse]
        what = few(dict.fromkeys(coincidences(change) for _, change in event.changes), 2)
        begin, _, end = days_between(timeline, event.first, event.last).partition(" to ")
        when = f"between {begin} and {end}" if end else f"on {begin}"
        yield f"{where}: {word} by {by}; began {when}, coincides with {what}"
