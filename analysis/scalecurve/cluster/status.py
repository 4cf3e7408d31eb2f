"""Progress of an experiment in a cluster, in the same tables as a bundle's, from its trials' statuses alone. Pure.

A status holds the sums of a trial (samples over wall time of the timed windows), not its windows. Intervals here are
therefore over repetitions only; the records (``pull``) give the whole.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scalecurve.bundle.open import Bundle, plan_within_limit
from scalecurve.bundle.problem import FileError, UnusableFile
from scalecurve.bundle.trial import Trial
from scalecurve.cluster.experiments import BegunTrial, Watched
from scalecurve.render.progress import clock
from scalecurve.render.table import Column, Table, table_of
from scalecurve_api.planning.horizon import dropped
from scalecurve_api.planning.plan import Plan
from scalecurve_api.record.checks.proof import PROOF
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import Check, Summary, TrialRecord, TrialWindow
from scalecurve_api.spec.trial import InvalidReason, TrialPhase, TrialSpec


def bundle_of(watched: Watched, begun: Iterable[BegunTrial]) -> Bundle:
    """A bundle built from the statuses of the trials."""
    trials = {trial.trial: trial for trial in begun}
    problems: list[UnusableFile] = []
    plan = _plan(watched, problems)
    specs: Sequence[TrialSpec] = plan.trials if plan else [trials[name].spec for name in sorted(trials)]
    records = {spec.name: _record(spec, trials.get(spec.name), problems) for spec in specs}
    results = {name: record.throughput for name, record in records.items() if record is not None}
    full = {name for name, record in records.items() if record and record.phase is TrialPhase.full}
    needless = dropped(watched.experiment.spec, plan, results, full) if plan else set()
    known = [Trial(spec, Path(spec.name), records[spec.name]) for spec in specs if spec.name not in needless]
    return Bundle(watched.name, Path(watched.name), watched.experiment, plan, tuple(known), tuple(problems))


def current_table(watched: Watched, now: datetime | None = None) -> Table:
    """The running trials, cut to the first ones."""
    return table_of(
        "current",
        "Now",
        _rows(watched, "current"),
        (
            (Column("trial", "Trial"), lambda trial: str(trial.get("name", ""))),
            (Column("point", "Point"), lambda trial: str(trial.get("point", ""))),
            (Column("workers", "Workers", "count"), lambda trial: int(trial.get("workers") or 0)),
            (Column("phase", "Phase"), lambda trial: str(trial.get("phase", ""))),
            (Column("attempt", "Attempt", "count"), lambda trial: int(trial.get("attempt") or 1)),
            (Column("for", "For"), lambda trial: age(trial.get("since"), now)),
        ),
    )


def headline_table(watched: Watched) -> Table:
    """The operator's own summary of each series at its largest measured worker count."""
    return table_of(
        "headlines",
        "Largest measured point per series",
        _rows(watched, "headlines"),
        (
            (Column("series", "Series"), lambda row: str(row.get("series", ""))),
            (Column("workers", "Workers", "count"), lambda row: int(row.get("workers") or 0)),
            (Column("throughput", "Throughput"), lambda row: row.get("throughput")),
            (Column("speed_up", "Speed-up"), lambda row: row.get("speedUp")),
            (Column("efficiency", "Efficiency"), lambda row: row.get("efficiency")),
        ),
    )


def condition_table(watched: Watched, now: datetime | None = None) -> Table:
    """The conditions, with their reasons."""
    return table_of(
        "conditions",
        "Conditions",
        _rows(watched, "conditions"),
        (
            (Column("condition", "Condition"), lambda condition: str(condition.get("type", ""))),
            (Column("status", "Status"), lambda condition: str(condition.get("status", ""))),
            (Column("reason", "Reason"), lambda condition: str(condition.get("reason", ""))),
            (Column("message", "Message"), lambda condition: str(condition.get("message", ""))),
            (Column("for", "For"), lambda condition: age(condition.get("lastTransitionTime"), now)),
        ),
    )


def _rows(watched: Watched, field: str) -> list[Mapping[str, Any]]:
    return watched.status.get(field) or []


def plain(watched: Watched) -> dict[str, Any]:
    """The progress as JSON: the status' own names."""
    kept = ("message", "total", "done", "startedAt", "endedAt")
    fields = {name: watched.status[name] for name in kept if name in watched.status}
    names = {"name": watched.name, "namespace": watched.namespace}
    return {**names, "phase": watched.phase, "counts": watched.counts, **fields}


def age(since: str | None, now: datetime | None = None) -> str | None:
    """``1:02:03`` since an RFC 3339 time."""
    try:
        then = datetime.fromisoformat(str(since).replace("Z", "+00:00"))
    except ValueError:
        return None
    return clock(((now or datetime.now(UTC)) - then).total_seconds())


def _plan(watched: Watched, problems: list[UnusableFile]) -> Plan | None:
    try:
        return plan_within_limit(watched.experiment, watched.experiment.spec.measure.sessions.count)
    except FileError as error:
        problems.append(UnusableFile("spec", str(error)))
        return None


def _record(spec: TrialSpec, trial: BegunTrial | None, problems: list[UnusableFile]) -> TrialRecord | None:
    if trial is None or not trial.phase.final:
        return None
    summary = None
    try:
        if trial.status.get("summary") is not None:
            summary = Summary.model_validate(trial.status["summary"])
    except ValidationError:
        problems.append(UnusableFile(trial.name, "this version does not understand its summary"))
    return TrialRecord(
        trial=spec,
        attempt=last_attempt(trial.status) or 1,
        phase=trial.phase,
        reason=trial.status.get("reason"),
        message=trial.status.get("message") or "",
        engine="kubernetes",
        summary=summary,
        checks=_proof(trial.status.get("unproved") or ()),
        windows=_windows(spec, summary) if trial.phase is TrialPhase.succeeded else [],
    )


def _proof(missing: Collection[str]) -> list[Check]:
    """The checks of what a status says was not shown."""
    names = (*PROOF, InvalidReason.untimed_work)
    return [Check(name=name, passed=None if name in missing else True, detail="in the record") for name in names]


def last_attempt(status: Mapping[str, Any]) -> int | None:
    """The newest attempt whose result is kept."""
    history = status.get("history") or []
    return int(history[-1]["attempt"]) if history else None


def _windows(trial: TrialSpec, summary: Summary | None) -> list[TrialWindow]:
    """All timed windows as one: a ratio of sums stays the same."""
    if summary is None or summary.wall_s <= 0:
        return []
    wall_ns = round(summary.wall_s * 1e9)
    by_batch = summary.samples // trial.point.global_batch if trial.point.global_batch else 1
    window = TrialWindow(
        index=0,
        kind=WindowKind.train,
        start_ns=0,
        wall_ns=wall_ns,
        fastest_ns=wall_ns,
        slowest_rank=0,
        first_step=0,
        steps=max(1, by_batch),
        samples=summary.samples,
    )
    return [window]
