"""What to do next: (experiment, what is observed of its trials) -> (actions, status). Pure and level-triggered.

Both engines call ``decide`` whenever anything may have changed; nothing else decides. It looks only at what is, never
at what happened, so a lost event, a restart or a repeated call changes nothing. An action that was carried out shows
in the next observation; until it does, the same action is asked for again, and must be harmless twice (a job's name
carries its attempt).

Suspending starts nothing more and lets what runs end: its number is still good. Cancelling stops what runs.

A turn may look at a window of a large experiment: trials that rest are given as counts by phase, and trials that were
never begun and whose turn is far as a number. So a turn costs what is open, not what was planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialPhase


class Job(StrEnum):
    """What is seen of the job of a trial's newest attempt."""

    absent = "absent"
    queued = "queued"
    starting = "starting"
    running = "running"
    ended = "ended"
    lost = "lost"
    """The attempt was begun, and neither its job nor its result can be found: it is run anew."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One trial as found: ``history`` holds the final phase of every attempt whose result is kept, oldest first.

    ``attempts`` counts attempts begun, lost ones included; ``job`` belongs to the newest. An engine that still finds
    a job after its result was kept says so by ``job`` with ``collected`` set.
    """

    attempts: int = 0
    history: tuple[TrialPhase, ...] = ()
    job: Job = Job.absent
    collected: bool = False


class ExperimentPhase(StrEnum):
    """Where an experiment stands; the last three are final."""

    pending = "Pending"
    running = "Running"
    suspended = "Suspended"
    succeeded = "Succeeded"
    failed = "Failed"
    cancelled = "Cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more happens."""
        return self in (ExperimentPhase.succeeded, ExperimentPhase.failed, ExperimentPhase.cancelled)


@dataclass(frozen=True, slots=True)
class Start:
    """Begin attempt ``attempt`` (counted from 1) of a trial."""

    trial: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Judge and keep what the ended attempt left; its phase then joins the history."""

    trial: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the running job; it is collected as Cancelled."""

    trial: str


@dataclass(frozen=True, slots=True)
class Clean:
    """Remove the job of an attempt whose result is kept."""

    trial: str


Action = Start | Collect | Stop | Clean


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of an experiment; ``phases`` has one entry for each trial that was given by name, in plan order."""

    phase: ExperimentPhase
    total: int
    counts: Mapping[TrialPhase, int]
    message: str
    phases: tuple[TrialPhase, ...] = field(repr=False)

    @property
    def done(self) -> int:
        """Trials in a final phase."""
        return sum(count for phase, count in self.counts.items() if phase.final)


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions in the order to take them, and the status to show.

    A final status may still come with actions (a job to remove): an engine has ended when there is nothing to do.
    """

    actions: tuple[Action, ...]
    status: Status


NOTHING = Observed()
_NONE: Mapping[TrialPhase, int] = MappingProxyType({})

_ACTIVE = {Job.queued: TrialPhase.queued, Job.starting: TrialPhase.starting, Job.running: TrialPhase.running}


def decide(
    spec: ExperimentSpec,
    trials: Sequence[str],
    observed: Mapping[str, Observed],
    *,
    settled: Mapping[TrialPhase, int] = _NONE,
    unbegun: int = 0,
) -> Decision:
    """One turn over trials' names in plan order; a trial that ``observed`` does not name was never begun.

    All trials may be given by name, or a window of them. Then ``settled`` counts by final phase the trials that are
    left out because they rest (``rests``) and have no job to remove, and ``unbegun`` those that were never begun and
    come after the named ones that were not: of these the first ``spec.parallelism`` must be named, or all there are.
    Actions, counts, phase and message are then the same as if all had been given.
    """
    views = [observed.get(name, NOTHING) for name in trials]
    failed = sum(1 for view in views if rests(spec, view) and view.history[-1] is TrialPhase.failed)
    too_many = failed + settled.get(TrialPhase.failed, 0) > spec.failure_policy.max_failed_trials
    halted = spec.cancel or too_many

    actions: list[Action] = []
    free = spec.parallelism - sum(1 for view in views if view.job not in (Job.absent, Job.lost))
    for name, view in zip(trials, views, strict=True):
        if (action := _tend(name, view, spec.cancel)) is not None:
            actions.append(action)
        elif free > 0 and not halted and not spec.suspend and _wants_start(spec, view):
            actions.append(Start(name, view.attempts + 1))
            free -= 1

    phases = tuple(_phase(spec, view, halted) for view in views)
    counts = Counter(phases)
    counts.update(settled)
    counts[_phase(spec, NOTHING, halted)] += unbegun
    return Decision(tuple(actions), _status(spec, phases, +counts, too_many))


def rests(spec: ExperimentSpec, view: Observed) -> bool:
    """Whether the trial has its result, and no attempt is left to make or being made; its job may still be there."""
    if not view.history or (view.job is not Job.absent and not view.collected):
        return False
    last = view.history[-1]
    if last is TrialPhase.failed:
        return view.history.count(TrialPhase.failed) > spec.failure_policy.retries
    if last is TrialPhase.invalid:
        return view.history.count(TrialPhase.invalid) > spec.failure_policy.retry_invalid
    return True


def _tend(name: str, view: Observed, cancel: bool) -> Action | None:
    """What a job that is there needs."""
    if view.job in (Job.absent, Job.lost):
        return None
    if view.collected:
        return Clean(name)
    if view.job is Job.ended:
        return Collect(name)
    return Stop(name) if cancel else None


def _wants_start(spec: ExperimentSpec, view: Observed) -> bool:
    return view.job in (Job.absent, Job.lost) and not rests(spec, view)


def _phase(spec: ExperimentSpec, view: Observed, halted: bool) -> TrialPhase:
    if view.job in _ACTIVE and not view.collected:
        return _ACTIVE[view.job]
    if view.job is Job.ended and not view.collected:
        return TrialPhase.collecting
    if rests(spec, view):
        return view.history[-1]
    if halted:
        return view.history[-1] if view.history else TrialPhase.cancelled
    return TrialPhase.pending


def _status(
    spec: ExperimentSpec, phases: tuple[TrialPhase, ...], counts: Counter[TrialPhase], too_many: bool
) -> Status:
    total, done = counts.total(), sum(count for phase, count in counts.items() if phase.final)
    if done == total:
        if too_many:
            phase = ExperimentPhase.failed
        elif counts[TrialPhase.cancelled]:
            phase = ExperimentPhase.cancelled
        elif counts[TrialPhase.succeeded] or not total:
            phase = ExperimentPhase.succeeded
        else:
            phase = ExperimentPhase.failed
    elif spec.suspend and not spec.cancel:
        phase = ExperimentPhase.suspended
    elif counts[TrialPhase.pending] < total:
        phase = ExperimentPhase.running
    else:
        phase = ExperimentPhase.pending
    return Status(phase, total, counts, _message(spec, counts, done, total, too_many), phases)


def _message(spec: ExperimentSpec, counts: Mapping[TrialPhase, int], done: int, total: int, too_many: bool) -> str:
    said = [f"{done} of {total} trials done"]
    said += [
        f"{counts[phase]} {phase.value}"
        for phase in (TrialPhase.failed, TrialPhase.invalid, TrialPhase.cancelled)
        if counts.get(phase)
    ]
    if done == total > 0 and not counts.get(TrialPhase.succeeded) and not counts.get(TrialPhase.cancelled):
        said.append("no number was obtained")
    if too_many:
        said.append(f"stopped: more failed than failurePolicy.maxFailedTrials, {spec.failure_policy.max_failed_trials}")
    return ", ".join(said)
