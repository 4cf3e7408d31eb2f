"""What the catalog keeps of a bundle: each repetition's samples and seconds, and what was recorded about its run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scalecurve.bundle.consistency import runs
from scalecurve.bundle.differences import facets_of
from scalecurve.bundle.measurement import MeasuredPoint, measure, samples_of
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.trial import Trial
from scalecurve.curves.compute import scaling
from scalecurve.render.table import one_line
from scalecurve_api.model import canonical_json
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import few

MACHINE = "machine"
DEFINITION = "experiment"
_MOST_VALUE = 200


@dataclass(frozen=True)
class RepetitionReading:
    """One valid trial with timed windows: samples and seconds over all of them, its begin in Unix ns.

    `runs` identify it in whatever bundle it stands.
    """

    number: int
    samples: float
    wall_s: float
    started_ns: int | None
    runs: tuple[str, ...]


@dataclass(frozen=True)
class PointReading:
    """One point in one session of a bundle; `doubts` say why it does not count, `facts` what was recorded of its runs.

    `baseline` is the worker count that the efficiency of its series is relative to.
    """

    experiment: str
    session: int
    series: str
    mode: str
    workers: int
    layout: str
    baseline: int
    unit: str
    doubts: str
    facts: dict[str, str]
    repetitions: tuple[RepetitionReading, ...]


@dataclass(frozen=True)
class BundleReading:
    """A bundle as the catalog keeps it; `trials` and `valid` count all of its trials, those without times included."""

    label: str
    trials: int
    valid: int
    warnings: tuple[str, ...]
    readings: tuple[PointReading, ...]


def read(bundle: Bundle) -> BundleReading:
    """Read the bundle's points by session."""
    doubts = {
        (series.name, p.workers, p.point.layout): ", ".join(p.doubts)
        for series in scaling([bundle]).series
        for p in series.points
    }
    readings = []
    for series in measure(bundle):
        for p in series.points:
            key = (series.name, p.point.workers, p.point.layout)
            for session, trials in _group_by_session(p).items():
                records = [trial.record for trial in trials if trial.record]
                readings.append(
                    PointReading(
                        experiment=records[0].trial.experiment,
                        session=session,
                        series=series.name,
                        mode=series.mode.value,
                        workers=p.point.workers,
                        layout=p.point.layout,
                        baseline=series.baseline,
                        unit=series.sample_unit,
                        doubts=doubts.get(key, ""),
                        facts=_facts(records),
                        repetitions=tuple(map(_repetition, trials)),
                    )
                )
    valid = sum(trial.good for trial in bundle.trials)
    return BundleReading(bundle.label, len(bundle.trials), valid, bundle.warnings, tuple(readings))


def _group_by_session(point: MeasuredPoint) -> dict[int, list[Trial]]:
    timed = {id(record) for record in point.timed}
    by_session: dict[int, list[Trial]] = {}
    for trial in point.trials:
        if id(trial.record) in timed:
            by_session.setdefault(trial.spec.session, []).append(trial)
    return by_session


def _repetition(trial: Trial) -> RepetitionReading:
    assert trial.record is not None
    totals = samples_of(trial.record, WindowKind.train)
    started = min((entry.at_ns for entry in trial.record.timeline), default=None)
    return RepetitionReading(
        trial.spec.repetition,
        totals.total_samples,
        totals.total_wall_s,
        started,
        tuple(sorted(map(str, runs([trial])))),
    )


def _facts(records: Iterable[TrialRecord]) -> dict[str, str]:
    """What was recorded about these runs, by name; a value that differed between them lists all of them."""
    values: dict[str, set[str]] = {}
    for record in records:
        for name, value in (*facets_of(record), *_place_and_definition(record)):
            values.setdefault(name, set()).add(one_line(value))
    return {name: ", ".join(sorted(there))[:_MOST_VALUE] for name, there in sorted(values.items())}


def _place_and_definition(record: TrialRecord) -> Iterator[tuple[str, str]]:
    hosts = sorted({rank.node or rank.host for rank in record.topology if rank.node or not rank.pod})
    if hosts:
        yield MACHINE, few(hosts, 4)
    for device in sorted({rank.device for rank in record.topology if rank.device.startswith("GPU-")}):
        yield "GPU", device[:12]
    point = record.trial.point
    tree = {
        "workload": record.trial.workload.wire(),
        "batch": [point.global_batch, point.batch_per_worker],
    }
    yield DEFINITION, hashlib.sha256(canonical_json(tree).encode()).hexdigest()[:8]
