"""What to do next: (experiment, observed trials) -> (actions, status). Pure and level-triggered.

Both engines call ``decide`` whenever anything may have changed; nothing else decides. It depends only on the observed
state and not on events, so a lost event, a restart or a repeated call changes nothing. A completed action shows in the
next observation; until then the same action is returned again, so it must be idempotent (a job's name contains its
attempt).

Suspending starts nothing more but lets running trials end: their results are still good. Cancelling stops them.

A reconcile may look at a window of a large experiment: terminal trials are passed as counts by phase, and trials whose
turn is far as a number. So its cost depends on open trials, not on planned ones.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count as counted


class Job(StrEnum):
    """State of the job of a trial's newest attempt."""

    absent = "absent"
    queued = "queued"
    starting = "starting"
    running = "running"
    ended = "ended"
    lost = "lost"  # the attempt was begun, but neither its job nor its result exists: it runs again


@dataclass(frozen=True, slots=True)
class Observed:
    """State of one trial: ``history`` holds the final phase of every attempt whose result is kept, oldest first.

    ``attempts`` counts attempts begun, lost ones included; ``job`` belongs to the newest. ``collected`` is set where a
    job still exists after its result was kept.
    """

    attempts: int = 0
    history: tuple[TrialPhase, ...] = ()
    job: Job = Job.absent
    collected: bool = False


class ExperimentPhase(StrEnum):
    """Phase of an experiment; the last three are final."""

    pending = "Pending"
    running = "Running"
    suspended = "Suspended"
    succeeded = "Succeeded"
    failed = "Failed"
    cancelled = "Cancelled"

    @property
    def final(self) -> bool:
        return self in (ExperimentPhase.succeeded, ExperimentPhase.failed, ExperimentPhase.cancelled)


@dataclass(frozen=True, slots=True)
class Start:
    """Begin attempt ``attempt`` (counted from 1) of a trial."""

    trial: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Judge and keep the result of the ended attempt; its phase then joins the history."""

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
    """The progress of an experiment; ``phases`` has one entry for each named trial, in plan order."""

    phase: ExperimentPhase
    total: int
    counts: Mapping[TrialPhase, int]
    message: str
    phases: tuple[TrialPhase, ...] = field(repr=False)

    @property
    def done(self) -> int:
        return sum(count for phase, count in self.counts.items() if phase.final)


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions in order, and the status to show.

    A final status may still come with actions, such as a job to remove: an engine ends when there are none.
    """

    actions: tuple[Action, ...]
    status: Status


NOTHING = Observed()
_NONE: Mapping[TrialPhase, int] = MappingProxyType({})

_NO_JOB = (Job.absent, Job.lost)
_ACTIVE = {Job.queued: TrialPhase.queued, Job.starting: TrialPhase.starting, Job.running: TrialPhase.running}


def decide(
    spec: ExperimentSpec,
    trials: Sequence[str],
    observed: Mapping[str, Observed],
    *,
    terminal: Mapping[TrialPhase, int] = _NONE,
    not_started: int = 0,
) -> Decision:
    """Decide for trials, in plan order; a trial that is not in ``observed`` was never begun.

    ``trials`` may be all trials or a window of them. ``terminal`` counts, by final phase, the trials absent because
    ``is_terminal`` holds and they have no job to remove; ``not_started`` is the number of those absent because they
    were never begun and come after all others: of these the first ``spec.parallelism`` must be in ``trials``, or all
    there are before the end of the ``horizon``. Actions, counts, phase and message are then the same as for all trials.
    Trials that the horizon drops are in none of these.
    """
    views = [observed.get(name, NOTHING) for name in trials]
    failed = sum(1 for view in views if is_terminal(spec, view) and view.history[-1] is TrialPhase.failed)
    too_many = failed + terminal.get(TrialPhase.failed, 0) > spec.failure_policy.max_failed_trials
    halted = spec.cancel or too_many

    actions: list[Action] = []
    free = spec.parallelism - sum(1 for view in views if view.job not in _NO_JOB)
    for name, view in zip(trials, views, strict=True):
        if (action := _action_on_job(name, view, spec.cancel)) is not None:
            actions.append(action)
        elif free > 0 and not halted and not spec.suspend and view.job in _NO_JOB and not is_terminal(spec, view):
            actions.append(Start(name, view.attempts + 1))
            free -= 1

    phases = tuple(_phase(spec, view, halted) for view in views)
    counts = Counter(phases)
    counts.update(terminal)
    counts[_phase(spec, NOTHING, halted)] += not_started
    return Decision(tuple(actions), _status(spec, phases, +counts, too_many))


def is_terminal(spec: ExperimentSpec, view: Observed) -> bool:
    """Whether the trial has its result, and no attempt is running or left to make; its job may still exist."""
    if not view.history or (view.job is not Job.absent and not view.collected):
        return False
    last = view.history[-1]
    if last is TrialPhase.failed:
        return view.history.count(TrialPhase.failed) > spec.failure_policy.retries
    if last is TrialPhase.invalid:
        return view.history.count(TrialPhase.invalid) > spec.failure_policy.retry_invalid
    return True


def _action_on_job(name: str, view: Observed, cancel: bool) -> Action | None:
    if view.job in _NO_JOB:
        return None
    if view.collected:
        return Clean(name)
    if view.job is Job.ended:
        return Collect(name)
    return Stop(name) if cancel else None


def _phase(spec: ExperimentSpec, view: Observed, halted: bool) -> TrialPhase:
    if view.job in _ACTIVE and not view.collected:
        return _ACTIVE[view.job]
    if view.job is Job.ended and not view.collected:
        return TrialPhase.collecting
    if is_terminal(spec, view):
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
    parts = [f"{done} of {counted(total, 'trial')} done"]
    parts += [
        f"{counts[phase]} {phase.value}"
        for phase in (TrialPhase.failed, TrialPhase.invalid, TrialPhase.full, TrialPhase.cancelled)
        if counts.get(phase)
    ]
    if done == total > 0 and not counts.get(TrialPhase.succeeded) and not counts.get(TrialPhase.cancelled):
        parts.append("no trial succeeded")
    if too_many:
        parts.append(f"stopped: more trials failed than maxFailedTrials, {spec.failure_policy.max_failed_trials}")
    return ", ".join(parts)
