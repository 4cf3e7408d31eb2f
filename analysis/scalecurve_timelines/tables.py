"""A history as tables: points now, changes, sessions, and groups of sessions by version, machine or device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Kind, Table, experiment_column, table_of
from scalecurve.statistics.change_points import ALPHA, LEAST_SESSIONS, level_ratio
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.text import count, few
from scalecurve_timelines.timeline import (
    Curve,
    ExperimentTimeline,
    History,
    LevelShift,
    PastSession,
    level_of,
    list_fact_names,
)

SESSION = "session"
_VERSION = "version of "
_SERIES, _WORKERS = Column("series", "Series"), Column("workers", "Workers", "count")
_MOST_COINCIDENCES = 3


def points_table(history: History) -> Table:
    """Tabulate the points, a row each: how often each was measured, its level now, and its last change."""
    rows = [(timeline, curve) for timeline in history.timelines for curve in timeline.curves]
    unit, kind = _unit(history)
    return table_of(
        "history",
        "Experiments over time",
        rows,
        (
            (_experiments(history), lambda row: row[0].experiment),
            (_SERIES, lambda row: row[1].series),
            (_WORKERS, lambda row: row[1].workers),
            (Column("layout", "Layout", detail=True), lambda row: row[1].layout),
            (Column("sessions", "Sessions", "count"), lambda row: row[1].sessions),
            (Column("first", "First"), lambda row: _days(*row)[0].day),
            (Column("last", "Last"), lambda row: _days(*row)[-1].day),
            (Column("latest", "Last session", kind, unit, interval=True), lambda row: _drop_missing_values(row[1])[-1]),
            (Column("level", "Level now", kind, unit, interval=True), lambda row: row[1].current),
            (Column("changed", "Last change"), lambda row: _last(*row)),
            (Column("change", "By", "percent", interval=True), lambda row: _relative_change(row[1])),
        ),
        [*method_notes(history), *history.notes],
    )


def changes_table(history: History) -> Table:
    """Tabulate the changes of each point, a row each."""
    rows = [(timeline, *pair) for timeline in history.timelines for pair in timeline.changes]
    return table_of(
        "changes",
        "What changed, and when",
        rows,
        (
            (_experiments(history), lambda row: row[0].experiment),
            (_SERIES, lambda row: row[1].series),
            (_WORKERS, lambda row: row[1].workers),
            (Column("since", "Since"), lambda row: row[0].sessions[row[2].at].minute),
            (Column("between", "Between"), lambda row: days_between(row[0], row[2].first, row[2].last)),
            (Column("change", "Change", "percent", interval=True), lambda row: relative(row[2].ratio)),
            (Column("p", "p", "number", detail=True), lambda row: row[2].p_value),
            (Column("bundle", "First bundle"), lambda row: row[0].sessions[row[2].at].bundle),
            (Column("coincides", "Coincides with"), lambda row: coincidences(row[2])),
        ),
        ["These coincide; that does not make them causes. To test one, interleave both with run --against."]
        if rows
        else (),
    )


def sessions_table(timeline: ExperimentTimeline, title: str = "") -> Table:
    """Tabulate the sessions of an experiment, a row each, with a column for each point, and where it ran."""
    percent = timeline.metric == "efficiency"
    several = len({curve.series for curve in timeline.curves}) > 1
    columns = [
        Column("experiment", "Experiment", detail=True),
        Column("started", "Started (UTC)"),
        Column("bundle", "Bundle"),
        Column("session", "Session", "count"),
    ]
    columns += [
        Column(
            f"{curve.series} {curve.workers} {curve.layout}",
            f"{curve.series} at {curve.workers}" if several else count(curve.workers, "worker"),
            "percent" if percent else "number",
            "" if percent else f"{curve.unit}/s",
            interval=True,
        )
        for curve in timeline.curves
    ]
    columns += [Column("changed", "Changed"), Column("machine", "Machine"), Column("versions", "Versions")]
    rows: list[tuple[Cell, ...]] = []
    shown = _find_varying_versions(timeline.sessions)
    for index, session in enumerate(timeline.sessions):
        changed = few((f"{c.series} at {c.workers}" for c, change in timeline.changes if change.at == index), 3)
        versions = ", ".join(f"{name.removeprefix(_VERSION)} {session.fact(name)}" for name in shown)
        where = ", ".join(filter(None, (session.fact("machine"), session.fact("GPU"))))
        values = (curve.values[index] for curve in timeline.curves)
        head = (timeline.experiment, session.minute, session.bundle, session.number)
        rows.append((*head, *values, changed or None, where or None, versions or None))
    return Table("sessions", title or f"Sessions of {timeline.experiment}", tuple(columns), tuple(rows))


@dataclass(frozen=True)
class Group:
    """The sessions of one curve that share a recorded value; `ratio` to those of the most frequent value."""

    timeline: ExperimentTimeline
    curve: Curve
    value: str
    sessions: int
    last: str
    level: Estimate
    ratio: Estimate | None


def groups_table(history: History, by: str) -> Table:
    """Tabulate the curves by what was recorded under the name `by` (``torch`` is short for ``version of torch``).

    Raises ValueError for a name under which nothing was recorded.
    """
    names = list_fact_names([session for timeline in history.timelines for session in timeline.sessions])
    name = by if by in names else f"{_VERSION}{by}"
    if name not in names:
        short = [known.removeprefix(_VERSION) for known in names if not known.startswith(("variable ", "setting "))]
        raise ValueError(f"nothing was recorded as {by!r}; expected {', '.join((SESSION, *short))}, and others")
    unit, kind = _unit(history)
    groups = [
        group for timeline in history.timelines for curve in timeline.curves for group in _groups(timeline, curve, name)
    ]
    return table_of(
        "groups",
        f"By {name}",
        groups,
        (
            (_experiments(history), lambda g: g.timeline.experiment),
            (_SERIES, lambda g: g.curve.series),
            (_WORKERS, lambda g: g.curve.workers),
            (Column("value", name[0].upper() + name[1:]), lambda g: g.value),
            (Column("sessions", "Sessions", "count"), lambda g: g.sessions),
            (Column("last", "Last"), lambda g: g.last),
            (Column("level", "Level", kind, unit, interval=True), lambda g: g.level),
            (Column("ratio", "Against the most frequent", "percent", interval=True), lambda g: g.ratio),
        ),
        ["Intervals are over sessions. Groups were not assigned at random: whatever else changed is in them, too."],
    )


def _groups(timeline: ExperimentTimeline, curve: Curve, name: str) -> Iterator[Group]:
    values: dict[str, list[tuple[PastSession, float]]] = {}
    for session, estimate in zip(timeline.sessions, curve.values, strict=True):
        if estimate is not None:
            there = values.setdefault(session.fact(name, curve.key) or "(unset)", [])
            there.append((session, math.log(estimate.value)))
    usual = max(values, key=lambda value: len(values[value]))
    logs = {value: [log for _, log in there] for value, there in values.items()}
    for value, there in values.items():
        ratio = None if value == usual else level_ratio(logs[usual], logs[value])
        yield Group(timeline, curve, value, len(there), there[-1][0].day, level_of(logs[value]), ratio)


def days_between(timeline: ExperimentTimeline, first: int, last: int) -> str:
    """Return the days between which a level began whose first session is `first`, `last` or between.

    It began after the session before the first that may have had it.
    """
    begin, end = timeline.sessions[max(0, first - 1)].day, timeline.sessions[last].day
    return begin if begin == end else f"{begin} to {end}"


def relative(ratio: Estimate) -> Estimate:
    """Convert a ratio to a change: 0.98 is -2 %."""
    low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
    return Estimate(ratio.value - 1, low, high, ratio.level, ratio.method, ratio.repetitions, ratio.sessions)


def coincidences(change: LevelShift) -> str:
    """List what was recorded differently before and after: ``torch 2.10 → 2.11; machine a → b``."""
    spelled = [f"{what.removeprefix(_VERSION)} {before} → {after}" for what, before, after in change.coincides]
    more = len(spelled) - _MOST_COINCIDENCES
    rest = [f"{count(more, 'more difference')}"] if more > 0 else []
    return "; ".join([*spelled[:_MOST_COINCIDENCES], *rest]) or "nothing that was recorded"


def method_notes(history: History) -> list[str]:
    """List what a reader must know of the changes, a sentence each."""
    bundles = count(history.bundles, "bundle")
    sessions = count(sum(len(timeline.sessions) for timeline in history.timelines), "session")
    notes = [
        f"{sessions} in {bundles}. A change is tested by permuting sessions: if nothing changed in an experiment, the "
        f"chance of any change in its table is {formatting.stated_percent(ALPHA)}, over all of its points. "
        "Intervals are over sessions."
    ]
    short = [t.experiment for t in history.timelines if max((c.sessions for c in t.curves), default=0) < LEAST_SESSIONS]
    if short:
        notes.append(f"Fewer than {LEAST_SESSIONS} sessions, too few to find a change: {few(short)}.")
    return notes


def _experiments(history: History) -> Column:
    return experiment_column(timeline.experiment for timeline in history.timelines)


def _unit(history: History) -> tuple[str, Kind]:
    if any(timeline.metric == "efficiency" for timeline in history.timelines):
        return "", "percent"
    units = {curve.unit for timeline in history.timelines for curve in timeline.curves}
    return f"{units.pop() if len(units) == 1 else 'samples or tokens'}/s", "number"


def _days(timeline: ExperimentTimeline, curve: Curve) -> list[PastSession]:
    return [s for s, value in zip(timeline.sessions, curve.values, strict=True) if value is not None]


def _drop_missing_values(curve: Curve) -> list[Estimate]:
    return [value for value in curve.values if value is not None]


def _last(timeline: ExperimentTimeline, curve: Curve) -> str | None:
    if curve.changes:
        return timeline.sessions[curve.changes[-1].at].day
    return "none" if curve.sessions >= LEAST_SESSIONS else None


def _relative_change(curve: Curve) -> Estimate | None:
    return relative(curve.changes[-1].ratio) if curve.changes else None


def _find_varying_versions(sessions: Sequence[PastSession]) -> list[str]:
    names = [name for name in list_fact_names(sessions) if name.startswith(_VERSION)]
    return [name for name in names if len({session.fact(name) for session in sessions}) > 1]
