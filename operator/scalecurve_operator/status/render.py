"""Statuses as written to the API server, as JSON; ``scalecurve_api.crds.status`` declares every field. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from scalecurve_api.crds.status import (
    MAX_CURRENT,
    MAX_HEADLINES,
    MAX_HISTORY,
    MAX_LEFT_OUT,
    CurrentTrial,
    Headline,
    one_line,
)
from scalecurve_api.lifecycle import ExperimentPhase, Status
from scalecurve_api.planning.plan import Plan
from scalecurve_api.planning.runner_choice import RunnerChoice
from scalecurve_api.record.verdict import Verdict
from scalecurve_api.spec.pod_options import MAX_NODES
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import InvalidReason, TrialPhase, TrialSpec
from scalecurve_kube.resources import Object, timestamp

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
_MAX_TIMELINE = 64
_OF_ONE_ATTEMPT = frozenset(
    ("reason", "message", "jobUid", "nodes", "throughput", "summary", "record", "timeline", "endedAt", "unproved")
)


@dataclass(frozen=True)
class AttemptResult:
    """What the trial's status says about an attempt that has ended."""

    verdict: Verdict
    summary: Mapping[str, object] | None
    record: Object
    nodes: tuple[str, ...]
    ended_at: float
    unproved: tuple[InvalidReason, ...] = ()


def claimed(status: Mapping[str, object], attempt: int, job: str, now: float) -> Object:
    """An attempt is about to begin: from here on its number is taken."""
    kept = {name: value for name, value in status.items() if name not in _OF_ONE_ATTEMPT}
    return kept | {
        "phase": TrialPhase.starting.value,
        "attempts": attempt,
        "job": job,
        "startedAt": timestamp(now),
        "timeline": [_event(TrialPhase.starting, now)],
    }


def progress_status(
    status: Mapping[str, object], phase: TrialPhase, job_uid: str, waiting: str | None, now: float
) -> Object:
    """The job is queued, starting or running; ``waiting`` says what it waits for."""
    new = {name: value for name, value in status.items() if name != "message"}
    new |= {"phase": phase.value, "jobUid": job_uid}
    if waiting:
        new["message"] = one_line(waiting, 512)
    if status.get("phase") != phase.value:
        new["timeline"] = [*_list(status.get("timeline")), _event(phase, now)][-_MAX_TIMELINE:]
    return new


def ended(status: Mapping[str, object], attempt: int, result: AttemptResult, job_uid: str | None) -> Object:
    """The attempt's result is kept: it joins the history."""
    verdict, moment = result.verdict, timestamp(result.ended_at)
    past: Object = {"attempt": attempt, "phase": verdict.phase.value, "endedAt": moment}
    if verdict.reason:
        past["reason"] = one_line(verdict.reason, 64)
    if verdict.message:
        past["message"] = one_line(verdict.message, 96)
    new = {name: value for name, value in status.items() if name not in _OF_ONE_ATTEMPT or name == "timeline"}
    new |= {
        "phase": verdict.phase.value,
        "history": [*_list(status.get("history")), past][-MAX_HISTORY:],
        "endedAt": moment,
        "timeline": [*_list(status.get("timeline")), _event(verdict.phase, result.ended_at)][-_MAX_TIMELINE:],
    }
    message = verdict.message or (f"unproved: {', '.join(result.unproved)}" if result.unproved else "")
    optional: Object = {
        "reason": past.get("reason"),
        "message": one_line(message, 512) if message else None,
        "jobUid": job_uid,
        "nodes": [node for node in result.nodes if len(node) <= 63][:MAX_NODES] or None,
        "summary": result.summary,
        "record": _bound_record(result.record),
        "unproved": list(result.unproved) or None,
        # Only a succeeded trial enters a curve or a table.
        "throughput": _throughput(result.summary) if verdict.phase is TrialPhase.succeeded else None,
    }
    return new | {name: value for name, value in optional.items() if value is not None}


def experiment(
    before: Mapping[str, object],
    generation: int,
    status: Status,
    current: Iterable[Object],
    headlines: Sequence[Object],
    conditions: Sequence[Object],
    now: float,
    started_at: float | None = None,
) -> Object:
    """The progress of an experiment; ``started_at`` is when its first trial began, if that is known."""
    new: Object = {
        "observedGeneration": generation,
        "phase": status.phase.value,
        "message": one_line(status.message, 512),
        "total": status.total,
        "done": status.done,
        "progress": f"{status.done}/{status.total}",
        "counts": {phase.value.lower(): count for phase, count in status.counts.items() if count},
        "headlines": list(headlines)[:MAX_HEADLINES],
        "current": list(current)[:MAX_CURRENT],
        "conditions": list(conditions),
    }
    if best := best_efficiency(headlines):
        new["bestEfficiency"] = best
    if "startedAt" in before:
        new["startedAt"] = before["startedAt"]
    elif any(count for phase, count in status.counts.items() if phase is not TrialPhase.pending):
        new["startedAt"] = timestamp(started_at or now)
    if status.phase.final:
        new["endedAt"] = before.get("endedAt") or timestamp(now)
    return new


def runner(choice: RunnerChoice) -> Object:
    """Which kind of job carries the trials, and why."""
    reason = {"runnerReason": one_line(choice.reason, 512)} if choice.reason else {}
    return {"runner": choice.runner.value, **reason}


def current_trial(name: str, trial: TrialSpec, phase: TrialPhase, status: Mapping[str, object]) -> Object:
    """A trial that has begun and not ended."""
    where = {"name": name, "point": trial.point.name, "workers": trial.point.workers}
    begun = {"phase": phase, "attempt": status.get("attempts") or 1, "since": status.get("startedAt") or None}
    return CurrentTrial.model_validate(where | begun).wire()


def ends(status: Status, before: Mapping[str, object]) -> Iterator[Object]:
    """What ``kubectl wait`` waits for, as of a Job: exactly one of Complete and Failed in the end, Suspended before.

    Cancelled counts as Failed: what was asked for was not measured.
    """
    if status.phase.final:
        kind = COMPLETE if status.phase is ExperimentPhase.succeeded else FAILED
        yield condition(kind, True, status.phase.value, status.message)
    elif status.phase is ExperimentPhase.suspended:
        yield condition(SUSPENDED, True, "SuspendRequested", "spec.suspend is true; no trial runs")
    elif any(entry["type"] == SUSPENDED for entry in _list(before.get("conditions"))):
        yield condition(SUSPENDED, False, "Resumed", "trials may run")


def refused(before: Mapping[str, object], generation: int, message: str, now: float) -> Object:
    """An experiment that can never run."""
    entries = [condition(kind, kind == FAILED, "InvalidSpec", message) for kind in ("Accepted", FAILED)]
    return {
        "observedGeneration": generation,
        "phase": "Failed",
        "message": one_line(message, 512),
        "conditions": conditions(before, entries, generation, now),
        "endedAt": before.get("endedAt") or timestamp(now),
    }


def condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    """A condition as it is now; ``conditions`` adds since when."""
    return {"type": kind, "status": str(holds), "reason": reason, "message": one_line(message, 512)}


def conditions(before: Mapping[str, object], entries: Sequence[Object], generation: int, now: float) -> list[Object]:
    """Kubernetes' standard list: a transition time moves only when the status of a condition does."""
    previous = {str(entry["type"]): entry for entry in _list(before.get("conditions"))}
    dated = []
    for entry in entries:
        old = previous.get(entry["type"])
        since = old["lastTransitionTime"] if old and old["status"] == entry["status"] else timestamp(now)
        dated.append(entry | {"lastTransitionTime": since, "observedGeneration": generation})
    return dated


def is_true(status: Mapping[str, object], kind: str) -> bool:
    """Whether a condition was True when the status was written."""
    return any(entry["type"] == kind and entry["status"] == "True" for entry in _list(status.get("conditions")))


def _event(phase: TrialPhase, now: float) -> Object:
    return {"phase": phase.value, "atNs": int(now * 1e9)}


def _bound_record(record: Object) -> Object:
    """The record itself lists everything that was dropped."""
    if "leftOut" not in record:
        return record
    return record | {"leftOut": [one_line(text, 128) for text in record["leftOut"][:MAX_LEFT_OUT]]}


def _throughput(summary: Mapping[str, Any] | None) -> str | None:
    if not summary or summary.get("throughput") is None:
        return None
    if not summary.get("samples") and summary.get("peakBusbw") is not None:
        return one_line(f"{summary['peakBusbw']:,.3g} GB/s busbw", 64)
    return one_line(f"{summary['throughput']:,.1f} {summary.get('sampleUnit', 'samples')}/s", 64)


def _list(value: object) -> list[Object]:
    return list(value) if isinstance(value, list) else []


def headlines(plan: Plan, throughputs: Mapping[int, float]) -> list[Object]:
    """How each series scales so far, at its largest measured worker count, best efficiency first.

    ``throughputs`` is in samples per second by position in the plan. Repetitions are averaged geometrically, as in the
    report, which has the uncertainties; an entry without its baseline has a throughput only.
    """
    measured: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    modes: dict[str, Mode] = {}
    for index, throughput in throughputs.items():
        point = plan.trials.point(index)
        measured[point.series][point.workers].append(throughput)
        modes[point.series] = point.mode
    baselines = plan.baselines
    ranked = [
        _headline(series, modes[series], by_workers, baselines[series]) for series, by_workers in measured.items()
    ]
    return [entry.wire() for _, entry in sorted(ranked, key=lambda pair: (-pair[0], pair[1].series))]


def best_efficiency(entries: Sequence[Object]) -> str | None:
    """The efficiency of the best series, with its worker count."""
    best = (f"{entry['efficiency']} at {entry['workers']}" for entry in entries if "efficiency" in entry)
    return next((one_line(text, 64) for text in best), None)


def _headline(series: str, mode: Mode, by_workers: Mapping[int, list[float]], baseline: int) -> tuple[float, Headline]:
    workers = max(by_workers)
    throughput = _mean(by_workers[workers])
    reference = _mean(by_workers[baseline]) if baseline in by_workers and workers != baseline else 0.0
    entry = {"series": series, "mode": mode, "workers": workers, "throughput": f"{throughput:,.1f}/s"}
    if not reference:
        return -1.0, Headline.model_validate(entry)
    speed_up = throughput / reference
    efficiency = speed_up * baseline / workers
    ratios = {"speedUp": f"{speed_up:.2f}", "efficiency": f"{efficiency:.1%}"}
    return efficiency, Headline.model_validate(entry | ratios)


def _mean(values: list[float]) -> float:
    return geometric_mean(values) if all(value > 0 for value in values) else 0.0
