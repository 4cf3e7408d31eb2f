"""Progress of an experiment in a cluster, in the same tables as a bundle's, from its trials' statuses alone. Pure.

A status holds the sums of a trial (samples over wall time of the timed windows), not its windows. Intervals here are
therefore over repetitions only; the records (``pull``) give the whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scalecurve.bundle.open import Bundle, Trial
from scalecurve.bundle.problem import UnusableFile
from scalecurve.cluster.experiments import BegunTrial, Watched
from scalecurve.render.progress import clock
from scalecurve.render.table import Column, Table
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import MAX_TRIALS, Plan, count_trials, make_plan
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import Summary, TrialRecord, TrialWindow
from scalecurve_api.spec.trial import TrialPhase, TrialSpec


def bundle_of(watched: Watched, begun: Iterable[BegunTrial]) -> Bundle:
    """A bundle built from the statuses of the trials."""
    trials = {trial.trial: trial for trial in begun}
    problems: list[UnusableFile] = []
    plan = _plan(watched, problems)
    specs: Sequence[TrialSpec] = plan.trials if plan else [trials[name].spec for name in sorted(trials)]
    known = [Trial(spec, Path(spec.name), _record(spec, trials.get(spec.name), problems)) for spec in specs]
    return Bundle(watched.name, Path(watched.name), watched.experiment, plan, tuple(known), tuple(problems))


def current_table(watched: Watched, now: datetime | None = None) -> Table:
    """The running trials, cut to the first ones."""
    columns = (
        Column("trial", "Trial"),
        Column("point", "Point"),
        Column("workers", "Workers", "count"),
        Column("phase", "Phase"),
        Column("attempt", "Attempt", "count"),
        Column("for", "For"),
    )
    rows = tuple(
        (
            str(trial.get("name", "")),
            str(trial.get("point", "")),
            int(trial.get("workers") or 0),
            str(trial.get("phase", "")),
            int(trial.get("attempt") or 1),
            age(trial.get("since"), now),
        )
        for trial in watched.status.get("current") or []
    )
    return Table("current", "Now", columns, rows)


def headline_table(watched: Watched) -> Table:
    """The operator's own summary of each series at its largest measured worker count."""
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("throughput", "Throughput"),
        Column("speed_up", "Speed-up"),
        Column("efficiency", "Efficiency"),
    )
    rows = tuple(
        (
            str(row.get("series", "")),
            int(row.get("workers") or 0),
            row.get("throughput"),
            row.get("speedUp"),
            row.get("efficiency"),
        )
        for row in watched.status.get("headlines") or []
    )
    return Table("headlines", "Largest measured point per series", columns, rows)


def condition_table(watched: Watched, now: datetime | None = None) -> Table:
    """The conditions, with their reasons."""
    columns = (
        Column("condition", "Condition"),
        Column("status", "Status"),
        Column("reason", "Reason"),
        Column("message", "Message"),
        Column("for", "For"),
    )
    rows = tuple(
        (
            str(condition.get("type", "")),
            str(condition.get("status", "")),
            str(condition.get("reason", "")),
            str(condition.get("message", "")),
            age(condition.get("lastTransitionTime"), now),
        )
        for condition in watched.status.get("conditions") or []
    )
    return Table("conditions", "Conditions", columns, rows)


def plain(watched: Watched) -> dict[str, Any]:
    """The progress as JSON: the status' own names."""
    kept = ("message", "total", "done", "startedAt", "endedAt")
    fields = {name: watched.status[name] for name in kept if name in watched.status}
    return {
        "name": watched.name,
        "namespace": watched.namespace,
        "phase": watched.phase,
        "counts": watched.counts,
        **fields,
    }


def age(since: str | None, now: datetime | None = None) -> str | None:
    """``1:02:03`` since an RFC 3339 time."""
    try:
        then = datetime.fromisoformat(str(since).replace("Z", "+00:00"))
    except ValueError:
        return None
    return clock(((now or datetime.now(UTC)) - then).total_seconds())


def _plan(watched: Watched, problems: list[UnusableFile]) -> Plan | None:
    try:
        if count_trials(watched.experiment.spec, limit=MAX_TRIALS) <= MAX_TRIALS:
            return make_plan(watched.experiment)
        reason = f"plans more than {MAX_TRIALS} trials, the limit of every engine"
    except AxisError as error:
        reason = str(error)
    problems.append(UnusableFile("spec", reason))
    return None


def _record(spec: TrialSpec, trial: BegunTrial | None, problems: list[UnusableFile]) -> TrialRecord | None:
    """A record of an ended trial from its status."""
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
        windows=_windows(spec, summary) if trial.phase is TrialPhase.succeeded else [],
    )


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
    return [
        TrialWindow(
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
    ]
