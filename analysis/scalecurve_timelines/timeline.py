"""An experiment over time: its sessions in order, a curve for each point over them, and what changed and when."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal

from scalecurve.statistics.change_points import ALPHA, ChangePoint, change_points
from scalecurve.statistics.estimate import Estimate, Method, RepetitionTotals
from scalecurve.statistics.intervals import efficiency, positive, throughput
from scalecurve.statistics.spread import Spread, sum_of_squares
from scalecurve_timelines.catalog import Contents, contents
from scalecurve_timelines.reading import DEFINITION, PointReading, RepetitionReading

Metric = Literal["throughput", "efficiency"]
METRICS: tuple[Metric, ...] = ("throughput", "efficiency")
Key = tuple[str, int, str]
"""Series, workers and layout: a point."""


@dataclass(frozen=True)
class PastSession:
    """One session of an experiment: when it began (Unix ns), in which bundle, and its readings by point."""

    started_ns: int
    bundle: str
    number: int
    readings: dict[Key, PointReading]

    @property
    def day(self) -> str:
        return day(self.started_ns)

    @property
    def minute(self) -> str:
        return datetime.fromtimestamp(self.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")

    def fact(self, name: str, key: Key | None = None) -> str:
        """Return what was recorded under this name, at one point or at all."""
        readings = self.readings.values() if key is None else [self.readings[key]] if key in self.readings else []
        return ", ".join(sorted({reading.facts[name] for reading in readings if name in reading.facts}))


@dataclass(frozen=True)
class LevelShift:
    """A new level from session `at` on; `first` and `last` are the sessions between which it began, at 95 %.

    `coincides` names what was recorded differently on either side: (what, before, after).
    """

    at: int
    first: int
    last: int
    ratio: Estimate
    p_value: float
    coincides: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Curve:
    """One point over time: a value for each session of its experiment (None where it was not measured).

    `current` is the level since the last change.
    """

    series: str
    workers: int
    layout: str
    unit: str
    values: tuple[Estimate | None, ...]
    changes: tuple[LevelShift, ...]
    current: Estimate

    @property
    def key(self) -> Key:
        return self.series, self.workers, self.layout

    @property
    def sessions(self) -> int:
        return sum(value is not None for value in self.values)


@dataclass(frozen=True)
class ExperimentTimeline:
    """An experiment: its sessions in the order of time, and its curves."""

    experiment: str
    metric: Metric
    sessions: tuple[PastSession, ...]
    curves: tuple[Curve, ...]

    @property
    def changes(self) -> list[tuple[Curve, LevelShift]]:
        """Of all curves, in the order of time."""
        every = [(curve, change) for curve in self.curves for change in curve.changes]
        return sorted(every, key=lambda pair: (pair[1].at, pair[0].key))


@dataclass(frozen=True)
class History:
    """The timelines of some folders by name, and what is in none of them: a sentence each."""

    timelines: tuple[ExperimentTimeline, ...]
    notes: tuple[str, ...]
    bundles: int
    read: int


def history(
    folders: Sequence[str | os.PathLike[str]],
    metric: Metric = "throughput",
    *,
    catalog: Path | None = None,
    experiments: Sequence[str] = (),
    include_unproved: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Follow every experiment in the bundles at or below `folders` over time.

    Args:
        folders: Folders to search for bundles.
        metric: A session's throughput (samples/s) or efficiency (against the baseline of the same session).
        catalog: File that keeps what was read for the next call; None keeps nothing.
        experiments: Names of the experiments that matter; all by default.
        include_unproved: Also use points that do not count (`scalecurve.curves.doubts`).
        progress: Called with the number of bundles read and of all of them.

    Returns:
        A timeline for each point of each experiment, with its changes.

    Raises:
        BundleError: for a folder that does not exist or holds no bundle.
        ValueError: for an experiment of `experiments` that no bundle has, or an unknown metric.
        OSError: where the catalog cannot be written.
    """
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}; expected {', '.join(METRICS)}")
    found = contents(folders, catalog, progress)
    sessions, notes = sessions_of(found, include_unproved)
    if unknown := sorted(set(experiments) - set(sessions)):
        raise ValueError(
            f"no bundle of {', '.join(unknown)}; experiments found: {', '.join(sorted(sessions)) or 'none'}"
        )
    timelines = tuple(
        timeline(name, there, metric)
        for name, there in sorted(sessions.items())
        if not experiments or name in experiments
    )
    return History(timelines, tuple(notes), len(found.sources), found.read)


def sessions_of(
    collected: Contents, include_unproved: bool = False, without: Collection[str] = ()
) -> tuple[dict[str, list[PastSession]], list[str]]:
    """List each experiment's sessions in the order of time, each trial once; and what is excluded, a sentence each.

    Runs of ``without`` are passed over: those of a bundle that is held against its own past.
    """
    seen: set[str] = set()
    own = set(without)
    by_session: dict[tuple[str, str, int], dict[Key, PointReading]] = {}
    copies, doubted, timeless = set(), set(), set()
    # The bundle with most valid trials has a grown session in full; others with the same trials are copies.
    for source in sorted(collected.sources, key=lambda source: (-source.reading.valid, source.name)):
        for reading in source.reading.readings:
            if reading.doubts and not include_unproved:
                doubted.add(f"{source.name}: {reading.series} at {reading.workers}")
                continue
            others = [r for r in reading.repetitions if not own.intersection(r.runs)]
            new = tuple(r for r in others if not seen.intersection(r.runs))
            if len(new) < len(others):
                copies.add(source.name)
            dated = tuple(r for r in new if r.started_ns is not None)
            if len(dated) < len(new):
                timeless.add(source.name)
            if dated:
                seen.update(run for r in dated for run in r.runs)
                key = (reading.series, reading.workers, reading.layout)
                there = by_session.setdefault((reading.experiment, source.name, reading.session), {})
                there[key] = _replace_repetitions(reading, dated)
    sessions: dict[str, list[PastSession]] = {}
    for (experiment, name, number), readings in by_session.items():
        started = min(r.started_ns or 0 for reading in readings.values() for r in reading.repetitions)
        sessions.setdefault(experiment, []).append(PastSession(started, name, number, readings))
    for in_order in sessions.values():
        in_order.sort(key=lambda session: (session.started_ns, session.bundle, session.number))
    notes = [f"{name}: {why}" for name, why in collected.unusable]
    notes += [f"{name}: holds trials of another bundle; each trial is taken once" for name in sorted(copies)]
    notes += [f"{name}: no times, so its place is not known; excluded" for name in sorted(timeless)]
    notes += [f"{where} workers: excluded as unproved; --include-unproved includes it" for where in sorted(doubted)]
    return sessions, notes


def _replace_repetitions(reading: PointReading, repetitions: tuple[RepetitionReading, ...]) -> PointReading:
    return PointReading(**{**vars(reading), "repetitions": repetitions})


def timeline(experiment: str, sessions: Sequence[PastSession], metric: Metric) -> ExperimentTimeline:
    """Compute the curves of an experiment over its sessions, and their changes, searched together."""
    keys = sorted(
        {key: None for session in sessions for key in session.readings}, key=lambda key: (key[0], key[1], key[2])
    )
    values = {key: [value_in(session, key, metric) for session in sessions] for key in keys}
    keys = [key for key in keys if any(values[key])]
    logs = [[None if value is None else math.log(value.value) for value in values[key]] for key in keys]
    by_curve: dict[int, list[ChangePoint]] = {}
    for point in change_points(logs):
        by_curve.setdefault(point.curve, []).append(point)
    changes = {index: _changes(sessions, keys[index], points) for index, points in by_curve.items()}
    curves = []
    for index, key in enumerate(keys):
        begin = changes[index][-1].at if index in changes else 0
        since = [value for value in logs[index][begin:] if value is not None]
        unit = next(s.readings[key].unit for s in sessions if key in s.readings)
        curves.append(Curve(*key, unit, tuple(values[key]), tuple(changes.get(index, ())), level_of(since)))
    return ExperimentTimeline(experiment, metric, tuple(sessions), tuple(curves))


def _changes(sessions: Sequence[PastSession], key: Key, points: Sequence[ChangePoint]) -> list[LevelShift]:
    cuts = [0, *(point.at for point in points), len(sessions)]
    sides = zip(cuts, cuts[1:], cuts[2:], strict=False)
    return [
        LevelShift(
            point.at,
            point.first,
            point.last,
            point.ratio,
            point.p_value,
            differing(sessions[before:at], sessions[at:after], key),
        )
        for point, (before, at, after) in zip(points, sides, strict=True)
    ]


def totals(reading: PointReading, session: int = 0) -> list[RepetitionTotals]:
    """Return the repetitions of a reading, as of this session."""
    return [RepetitionTotals.of([r.samples], [r.wall_s], session) for r in reading.repetitions]


def value_in(session: PastSession, key: Key, metric: Metric) -> Estimate | None:
    """Estimate the metric of a point in one session, with its interval within the session."""
    if (reading := session.readings.get(key)) is None:
        return None
    if metric == "throughput":
        return throughput(totals(reading))
    bases = [
        r for (series, workers, _), r in session.readings.items() if (series, workers) == (key[0], reading.baseline)
    ]
    if not bases or reading.workers == reading.baseline:
        return None
    return efficiency(totals(reading), totals(bases[0]), reading.workers, reading.baseline)


def level_of(logs: Sequence[float], level: float = 1 - ALPHA) -> Estimate:
    """Estimate the mean of sessions, each value the log of a session's, with the interval of a mean of sessions."""
    count = len(logs)
    value = math.exp(math.fsum(logs) / count)
    if count < 2:
        return Estimate.not_known(value, level, count, count, "one session")
    spread = Spread(sum_of_squares(logs) / (count - 1) / count, count - 1)
    return positive(value, spread, level, Method.SESSIONS, count, count)


def sessions_since(past: ExperimentTimeline, curve: Curve) -> list[PastSession]:
    """Select the sessions that measured a point since its last change."""
    begin = curve.changes[-1].at if curve.changes else 0
    return [session for session in past.sessions[begin:] if curve.key in session.readings]


def repetitions_since(past: ExperimentTimeline, curve: Curve) -> list[RepetitionTotals]:
    """List the repetitions of the sessions since a point's last change, each session with a number of its own."""
    since = enumerate(sessions_since(past, curve))
    return [r for number, session in since for r in totals(session.readings[curve.key], number)]


def earlier_spread(curve: Curve) -> Spread | None:
    """Estimate how much sessions scatter about their level, in the stretches before the last change."""
    cuts = [0, *(change.at for change in curve.changes)]
    stretches = [
        [math.log(value.value) for value in curve.values[begin:end] if value is not None]
        for begin, end in pairwise(cuts)
    ]
    degrees = sum(len(stretch) - 1 for stretch in stretches if stretch)
    squares = math.fsum(sum_of_squares(stretch) for stretch in stretches if stretch)
    return Spread(squares / degrees, degrees) if degrees else None


def differing(
    before: Sequence[PastSession], after: Sequence[PastSession], key: Key
) -> tuple[tuple[str, str, str], ...]:
    """Find what was recorded at a point in none of the sessions on the other side: (what, before, after)."""
    facts = [[s.readings[key].facts for s in side if key in s.readings] for side in (before, after)]
    out = []
    for name in sorted({name for side in facts for recorded in side for name in recorded}):
        values = [{recorded.get(name, "(unset)") for recorded in side} for side in facts]
        if not values[0] & values[1]:
            out.append((name, ", ".join(sorted(values[0])), ", ".join(sorted(values[1]))))
    return tuple(sorted(out, key=lambda row: (row[0] != DEFINITION, row[0])))


def day(ns: int) -> str:
    """Format the date in UTC, as 2026-11-23."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d")


def list_fact_names(sessions: Iterable[PastSession]) -> list[str]:
    """List the names of everything that was recorded of these sessions."""
    return sorted({name for session in sessions for r in session.readings.values() for name in r.facts})


def level_of_values(values: Sequence[Estimate | None]) -> float:
    """Compute the level of these sessions: their geometric mean."""
    return level_of([math.log(value.value) for value in values if value is not None]).value
