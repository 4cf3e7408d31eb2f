"""Changes of several points that may be one: the same direction, and a time in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalecurve.render import formatting
from scalecurve.timelines.tables import coincidences, days_between, relative
from scalecurve.timelines.timeline import Curve, ExperimentTimeline, LevelShift
from scalecurve_api.text import count, few

_WORDS = {"throughput": ("slower", "faster"), "efficiency": ("less efficient", "more efficient")}


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
    """The changes of a timeline, those that may be one together, in the order of time."""
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
    """An event in words: what became of how many points, when, by how much, and what else changed."""
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
