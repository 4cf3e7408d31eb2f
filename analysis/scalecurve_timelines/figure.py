"""The figure of a timeline: a panel for each point, a mark for each session, levels, and when they changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from matplotlib.axes import Axes

from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, style, theme
from scalecurve.reporting.drawing.views import form
from scalecurve_api.text import count
from scalecurve_timelines.tables import days_between, relative
from scalecurve_timelines.timeline import Curve, ExperimentTimeline, PastSession, level_of_values

MOST_PANELS = 12
_MOST_MACHINES = 6
_MOST_TIPS = 500  # more make the page slow, and no finger finds them
_DAY_NS = 86_400 * 10**9
_HEIGHT = 2.2


def timeline_figure(timeline: ExperimentTimeline) -> Drawing | None:
    """Draw every point over time; sessions of different machines have different marks."""
    curves = timeline.curves[:MOST_PANELS]
    if not curves:
        return None
    machines = list(dict.fromkeys(session.fact("machine") for session in timeline.sessions))
    shown = machines if 1 < len(machines) <= _MOST_MACHINES and all(machines) else []
    sheet = Sheet(len(curves), labels=shown, height=_HEIGHT)
    several = len({curve.series for curve in timeline.curves}) > 1
    names = [f"{curve.series} " if several else "" for curve in curves]
    sheet.name_panels(
        [name + count(curve.workers, "worker") for name, curve in zip(names, curves, strict=True)],
    )
    tips = len(timeline.sessions) * len(curves) <= _MOST_TIPS
    for panel, curve in zip(sheet.panels, curves, strict=True):
        _draw(sheet, panel, timeline, curve, shown, tips)
    unit = "of ideal" if timeline.metric == "efficiency" else f"{curves[0].unit}/s"
    more = len(timeline.curves) - len(curves)
    rest = f" The first {MOST_PANELS} points; {more} more in the table." if more > 0 else ""
    return sheet.drawing(
        timeline.metric.capitalize(),
        f"{timeline.metric.capitalize()} ({unit}) of each session, the level between changes (lines), "
        f"and the time in which a change may have begun (bands).{' Colors are machines.' if shown else ''}{rest}",
    )


def _draw(
    sheet: Sheet, panel: Axes, timeline: ExperimentTimeline, curve: Curve, machines: Sequence[str], with_tips: bool
) -> None:
    spell = formatting.percent if timeline.metric == "efficiency" else formatting.number
    days = [session.started_ns / _DAY_NS for session in timeline.sessions]
    known = [index for index, value in enumerate(curve.values) if value is not None]
    heights: list[float] = []
    for place, machine in enumerate(machines or [""]):
        there = [i for i in known if not machines or timeline.sessions[i].fact("machine") == machine]
        values = [(days[i], value) for i in there if (value := curve.values[i]) is not None]
        if not values:
            continue
        look = style(place)
        (marks,) = panel.plot(
            [x for x, _ in values], [v.value for _, v in values], look.marker, color=look.color, ms=3.5, label=machine
        )
        heights += [v.value for _, v in values]
        if machines:
            sheet.handles[machine] = marks
            sheet.belongs(machine, marks)
    cuts = [0, *(change.at for change in curve.changes), len(days)]
    for begin, end in pairwise(cuts):
        inside = [i for i in known if begin <= i < end]
        level = level_of_values([curve.values[i] for i in inside])
        panel.plot([days[inside[0]], days[inside[-1]]], [level, level], color=theme.INK, linewidth=1.4, zorder=3)
    low, high = min(heights), max(heights)
    air = max((high - low) * 0.12, high * 0.005)
    for change in curve.changes:
        first, last = days[max(0, change.first - 1)], days[change.last]
        panel.axvspan(first, last, color=theme.PALETTE[1], alpha=0.18, linewidth=0)
        by = formatting.interval(relative(change.ratio), as_percent=True)
        text = f"{days_between(timeline, change.first, change.last)}: {by}"
        sheet.tip(panel, (first + last) / 2, high + air / 2, text)
    for index in known if with_tips else ():
        if (value := curve.values[index]) is not None:
            session = timeline.sessions[index]
            sheet.tip(panel, days[index], value.value, f"{session.minute}, {session.bundle}: {spell(value.value)}")
    panel.set_ylim(low - air, high + air)
    ticks = axis.linear_ticks(low - air, high + air, 4)
    axis.fixed_ticks(panel, "y", ticks, [_tick(tick, timeline) for tick in ticks])
    _time_axis(panel, timeline.sessions)


def _tick(value: float, timeline: ExperimentTimeline) -> str:
    return axis.percent(round(value, 6)) if timeline.metric == "efficiency" else axis.short(value)


def _time_axis(panel: Axes, sessions: Sequence[PastSession]) -> None:
    """Dates, at the beginnings of days, months or years."""
    first, last = sessions[0].started_ns / _DAY_NS, sessions[-1].started_ns / _DAY_NS
    air = max((last - first) * 0.03, 0.05)
    panel.set_xlim(first - air, last + air)
    ticks = date_ticks(first, last, 4 if form().phone else 5)
    axis.fixed_ticks(panel, "x", [at for at, _ in ticks], [label for _, label in ticks])


def date_ticks(first: float, last: float, most: int) -> list[tuple[float, str]]:
    """List (days since 1970, label) within two such days: years, months or days, at most ``most`` of them."""
    begin, end = (datetime.fromtimestamp(day * 86_400, UTC) for day in (first, last))
    months = [
        datetime(year, month, 1, tzinfo=UTC) for year in range(begin.year, end.year + 1) for month in range(1, 13)
    ]
    inside = [month for month in months if begin <= month <= end]
    for step in (1, 2, 3, 6, 12, 24, 60, 120):
        kept = [month for month in inside if (month.year * 12 + month.month - 1) % step == 0]
        if 2 <= len(kept) <= most:
            pattern = "%Y-%m" if step < 12 else "%Y"
            return [(month.timestamp() / 86_400, month.strftime(pattern)) for month in kept]
    step = max(1, -(-int(last - first + 1) // most))
    days = [float(day) for day in range(int(first) + (first > int(first)), int(last) + 1, step)] or [first]
    return [(day, datetime.fromtimestamp(day * 86_400, UTC).strftime("%m-%d")) for day in days]
