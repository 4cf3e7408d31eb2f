"""The trials of one experiment indexed by state, so that a reconcile looks only at the few that are open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scalecurve_api.lifecycle import Decision, Job, Observed, decide, is_terminal
from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.object_names import trial_name
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_operator.cache.cached_objects import CachedJob, CachedTrial, ExperimentObjects
from scalecurve_operator.runners import RUNNERS, JobStatus, RunnerKind, runner_for

MAX_LOST_JOBS = 3
"""An attempt whose job vanishes is rerun; after so many the trial is Failed, because something keeps deleting it."""


@dataclass(frozen=True)
class Snapshot:
    """What ``lifecycle.decide`` decides from: open and next trials in plan order, and counts of the rest."""

    names: tuple[str, ...]
    observed: Mapping[str, Observed]
    terminal: Mapping[TrialPhase, int]
    not_started: int


@dataclass
class TrialIndex:
    """``open`` holds the positions of trials that were begun and are not terminal; ``terminal`` counts by phase."""

    uid: str
    generation: int
    spec: ExperimentSpec
    plan: Plan
    names: list[str]
    """names of the ScalingTrial objects, in plan order"""
    positions: dict[str, int]
    """the inverse of ``names``"""
    open: set[int] = field(default_factory=set)
    terminal_phase: dict[int, TrialPhase] = field(default_factory=dict)
    terminal: Counter[TrialPhase] = field(default_factory=Counter)
    throughputs: dict[int, float] = field(default_factory=dict)
    """of succeeded trials, in samples per second"""
    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    """series -> nodes that its trials have run on, in order of first use"""
    first_not_started: int = 0

    @classmethod
    def build(cls, experiment: ScalingExperiment, uid: str, generation: int, objects: ExperimentObjects) -> TrialIndex:
        """An index of everything cached so far.

        Raises:
            AxisError: when a matrix value does not fit its field.
        """
        plan = make_plan(experiment)
        names = [trial_name(plan.experiment, name) for name in plan.names]
        index = cls(uid, generation, experiment.spec, plan, names, {name: i for i, name in enumerate(names)})
        index.update(objects, {*objects.trials, *(job.trial for job in objects.jobs.values())})
        return index

    def trial(self, name: str) -> TrialSpec:
        return self.plan.trials[self.positions[name]]

    def runner(self, name: str) -> RunnerKind:
        return runner_for(self.spec, self.trial(name))

    def job_status(self, name: str, jobs: list[CachedJob]) -> JobStatus | None:
        return self.runner(name).read(jobs[-1].body) if jobs else None

    def open_names(self) -> list[str]:
        return [self.names[position] for position in self.open]

    def update(self, objects: ExperimentObjects, names: Iterable[str]) -> None:
        for name in names:
            if (position := self.positions.get(name)) is not None:
                self._update(position, objects.trials.get(name), objects.jobs_of(name))

    def _update(self, position: int, trial: CachedTrial | None, jobs: list[CachedJob]) -> None:
        if (phase := self.terminal_phase.pop(position, None)) is not None:
            self.terminal[phase] -= 1
            self.throughputs.pop(position, None)
        if trial is not None and trial.owner != self.uid:
            trial = None
        if trial is None and not jobs:
            self.open.discard(position)
            self.first_not_started = min(self.first_not_started, position)
            return
        view = observe(trial, jobs, None)
        if trial is not None and trial.nodes:
            self.nodes.setdefault(self.plan.trials.point(position).series, {}).update(dict.fromkeys(trial.nodes))
        if view.job is not Job.absent or not view.history or not is_terminal(self.spec, view):
            self.open.add(position)
            return
        self.open.discard(position)
        phase = self.terminal_phase[position] = view.history[-1]
        self.terminal[phase] += 1
        if phase is TrialPhase.succeeded and trial is not None and trial.throughput:
            self.throughputs[position] = trial.throughput

    def snapshot(self, objects: ExperimentObjects) -> Snapshot:
        """The open trials, and the next that were never started, as many as could start at once."""
        upcoming = self._next_not_started(self.spec.parallelism)
        observed = {}
        for name in self.open_names():
            jobs = objects.jobs_of(name)
            observed[name] = observe(objects.trials.get(name), jobs, self.job_status(name, jobs))
        return Snapshot(
            names=tuple(self.names[position] for position in sorted(self.open.union(upcoming))),
            observed=observed,
            terminal=self.terminal,
            not_started=len(self.names) - len(self.open) - len(self.terminal_phase) - len(upcoming),
        )

    def decide(self, objects: ExperimentObjects) -> tuple[tuple[str, ...], Decision]:
        """What to do next, and the trials that its status lists the phases of."""
        snapshot = self.snapshot(objects)
        return snapshot.names, decide(
            self.spec, snapshot.names, snapshot.observed, terminal=snapshot.terminal, not_started=snapshot.not_started
        )

    def _next_not_started(self, limit: int) -> list[int]:
        upcoming: list[int] = []
        position = self.first_not_started
        while position < len(self.names) and len(upcoming) < limit:
            if position not in self.open and position not in self.terminal_phase:
                upcoming.append(position)
            position += 1
        self.first_not_started = upcoming[0] if upcoming else position
        return upcoming


def has_ended_job(objects: ExperimentObjects | None) -> bool:
    """Whether a result waits to be collected."""
    jobs = objects.jobs.values() if objects is not None else ()
    return any(job.forced_end is not None or _ended(job) for job in jobs)


def _ended(job: CachedJob) -> bool:
    runner = RUNNERS.get(job.body["kind"])
    return runner is not None and runner.read(job.body).state is Job.ended


def observe(trial: CachedTrial | None, jobs: list[CachedJob], status: JobStatus | None) -> Observed:
    """One trial as ``lifecycle`` looks at it.

    An attempt that was claimed, but whose job was never seen, is started again under the same number: the job's name
    keeps it from being created twice.
    """
    history = tuple(phase for _, phase in trial.history) if trial else ()
    collected = trial.collected if trial else {}
    attempts = trial.attempts if trial else 0
    if jobs:
        job = jobs[-1]
        state = status.state if status is not None else Job.starting
        if state is Job.starting and trial is not None and _was_running(trial, job):
            # A job that is about to end counts one pod less for a moment.
            state = Job.running
        state = Job.ended if job.forced_end is not None else state
        return Observed(max(attempts, job.attempt), history, state, job.attempt in collected)
    if trial is None or attempts == 0 or attempts in collected:
        return Observed(attempts, history)
    if trial.job_uid is None:
        return Observed(attempts - 1, history)
    if attempts - len(history) >= MAX_LOST_JOBS:
        return Observed(attempts, history, Job.ended)
    return Observed(attempts, history, Job.lost)


def _was_running(trial: CachedTrial, job: CachedJob) -> bool:
    return trial.attempts == job.attempt and trial.phase == TrialPhase.running.value
