"""The trials of one experiment by how they stand, kept so that a turn looks only at the few that are open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scalecurve_api.lifecycle import Job, Observed, rests
from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.object_names import trial_name
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_operator.cache.object_cache import Family, JobSeen, TrialSeen
from scalecurve_operator.runners import RUNNERS, RunnerKind, runner_for
from scalecurve_operator.runners.job_state import Reading

KINDS = {runner.kind: runner for runner in RUNNERS.values()}
MOST_LOST = 3
"""An attempt whose job vanishes is run anew so often; then the trial is Failed, for somebody does not want it."""


@dataclass(frozen=True)
class Window:
    """What ``lifecycle.decide`` is given: names in plan order, what is observed of them, and counts of the rest."""

    names: tuple[str, ...]
    observed: Mapping[str, Observed]
    settled: Mapping[TrialPhase, int]
    unbegun: int


@dataclass
class Ledger:
    """``open`` are the trials that were begun and do not rest yet; ``settled`` counts those that do, by phase."""

    uid: str
    generation: int
    spec: ExperimentSpec
    plan: Plan
    index: dict[str, int]
    """name of the ScalingTrial object -> place in the plan"""
    names: list[str]
    open: set[int] = field(default_factory=set)
    settled_phase: dict[int, TrialPhase] = field(default_factory=dict)
    settled: Counter[TrialPhase] = field(default_factory=Counter)
    throughputs: dict[int, float] = field(default_factory=dict)
    """of succeeded trials, in samples a second"""
    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    """series -> nodes its trials have run on, in the order they came to it"""
    first_unbegun: int = 0

    def trial(self, name: str) -> TrialSpec:
        """By the name of its object."""
        return self.plan.trials[self.index[name]]

    def runner(self, name: str) -> RunnerKind:
        """Which carries this trial."""
        return runner_for(self.spec, self.trial(name))

    def note(self, family: Family, names: Iterable[str]) -> None:
        """Look at these trials anew."""
        for name in names:
            if (index := self.index.get(name)) is not None:
                self._note(index, family.trials.get(name), jobs_of(family, name))

    def _note(self, index: int, trial: TrialSeen | None, jobs: list[JobSeen]) -> None:
        self._unsettle(index)
        if trial is not None and trial.owner != self.uid:
            trial = None
        if trial is None and not jobs:
            self.open.discard(index)
            self.first_unbegun = min(self.first_unbegun, index)
            return
        view = observe(trial, jobs, None)
        if trial is not None and trial.nodes:
            self.nodes.setdefault(self.plan.trials.point(index).series, {}).update(dict.fromkeys(trial.nodes))
        if view.job is Job.absent and view.history and rests(self.spec, view):
            self.open.discard(index)
            self._settle(index, view.history[-1], trial)
        else:
            self.open.add(index)

    def window(self, family: Family) -> Window:
        """The open trials and the next that were never begun, as many as could start at once."""
        unbegun = self._next_unbegun(self.spec.parallelism)
        places = sorted(self.open.union(unbegun))
        observed = {}
        for place in self.open:
            name = self.names[place]
            jobs = jobs_of(family, name)
            observed[name] = observe(family.trials.get(name), jobs, self.reading(name, jobs))
        begun = len(self.open) + len(self.settled_phase)
        return Window(
            tuple(self.names[place] for place in places),
            observed,
            self.settled,
            len(self.names) - begun - len(unbegun),
        )

    def reading(self, name: str, jobs: list[JobSeen]) -> Reading | None:
        """What the newest job says of itself."""
        return self.runner(name).read(jobs[-1].body) if jobs else None

    def _next_unbegun(self, most: int) -> list[int]:
        found: list[int] = []
        place, first = self.first_unbegun, True
        while place < len(self.names) and len(found) < most:
            if place not in self.open and place not in self.settled_phase:
                if first:
                    self.first_unbegun, first = place, False
                found.append(place)
            place += 1
        if first:
            self.first_unbegun = place
        return found

    def _settle(self, index: int, phase: TrialPhase, trial: TrialSeen | None) -> None:
        self.settled_phase[index] = phase
        self.settled[phase] += 1
        if phase is TrialPhase.succeeded and trial is not None and trial.throughput:
            self.throughputs[index] = trial.throughput

    def _unsettle(self, index: int) -> None:
        phase = self.settled_phase.pop(index, None)
        if phase is not None:
            self.settled[phase] -= 1
            self.throughputs.pop(index, None)


def open_ledger(experiment: ScalingExperiment, uid: str, generation: int, family: Family) -> Ledger:
    """A ledger of everything seen so far.

    Raises:
        AxisError: when a matrix value does not fit its field.
    """
    plan = make_plan(experiment)
    names = [trial_name(plan.experiment, name) for name in plan.names]
    ledger = Ledger(uid, generation, experiment.spec, plan, {name: i for i, name in enumerate(names)}, names)
    ledger.note(family, {*family.trials, *(job.trial for job in family.jobs.values())})
    return ledger


def jobs_of(family: Family, trial: str) -> list[JobSeen]:
    """The jobs of a trial that are there, oldest attempt first: one, but for the moment in which one is removed.

    Jobs of an earlier trial object of this name are none of its own; the garbage collector is about to remove them.
    """
    prefix, known = f"{trial}-a", family.trials.get(trial)
    found = [job for name, job in family.jobs.items() if name.startswith(prefix) and job.trial == trial]
    found = [job for job in found if known is None or job.owner == known.uid]
    return sorted(found, key=lambda job: job.attempt) if len(found) > 1 else found


def abandoned(family: Family, uid: str) -> list[str]:
    """Trials with neither a job nor a result of their newest attempt: not claimed, not made, or lost."""
    return [
        name
        for name, trial in family.trials.items()
        if trial.owner == uid
        and all(attempt != trial.attempts for attempt, _ in trial.history)
        and not jobs_of(family, name)
    ]


def jobs_ended(family: Family | None) -> bool:
    """Whether somebody waits for a result: a job has ended."""
    jobs = family.jobs.values() if family is not None else ()
    return any(job.given_up is not None or _has_ended(job) for job in jobs)


def _has_ended(job: JobSeen) -> bool:
    kind = KINDS.get(job.body["kind"])
    return kind is not None and kind.read(job.body).state is Job.ended


def observe(trial: TrialSeen | None, jobs: list[JobSeen], reading: Reading | None) -> Observed:
    """What ``lifecycle`` wants to know of one trial.

    An attempt that was claimed, and whose job nobody has seen yet, is to be begun again under the same number: its
    name keeps it from being made twice.
    """
    history = tuple(phase for _, phase in trial.history) if trial else ()
    collected = {attempt for attempt, _ in trial.history} if trial else set()
    attempts = trial.attempts if trial else 0
    if jobs:
        job = jobs[-1]
        state = reading.state if reading is not None else Job.starting
        if state is Job.starting and trial is not None and _ran(trial, job):
            # A job that is about to end counts a pod less for a moment.
            state = Job.running
        state = Job.ended if job.given_up is not None else state
        return Observed(max(attempts, job.attempt), history, state, job.attempt in collected)
    if trial is None or attempts == 0 or attempts in collected:
        return Observed(attempts, history)
    if trial.job_uid is None:
        return Observed(attempts - 1, history)
    if attempts - len(history) >= MOST_LOST:
        return Observed(attempts, history, Job.ended)
    return Observed(attempts, history, Job.lost)


def _ran(trial: TrialSeen, job: JobSeen) -> bool:
    """Whether this job was seen to run before."""
    return trial.attempts == job.attempt and trial.phase == TrialPhase.running.value
