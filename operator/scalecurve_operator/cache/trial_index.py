"""The trials of one experiment indexed by state, so that a reconcile looks only at the few that are open."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from scalecurve_api.lifecycle import Decision, Job, Observed, decide, is_terminal
from scalecurve_api.planning.horizon import Horizon, horizon
from scalecurve_api.planning.plan import Plan
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.object_names import trial_name
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_operator.cache.cached_objects import CachedJob, CachedTrial, ExperimentObjects
from scalecurve_operator.runners import RUNNERS, JobStatus, RunnerKind, runner_for

MAX_LOST_JOBS = 3
"""An attempt whose job vanishes is rerun; after so many the trial is Failed, because something keeps deleting it."""


@dataclass
class TrialIndex:
    """``open`` holds the positions of trials that were begun and are not terminal; ``terminal`` counts by phase."""

    uid: str
    generation: int
    spec: ExperimentSpec
    plan: Plan
    names: list[str]  # of the ScalingTrial objects, in plan order
    positions: dict[str, int]  # the inverse of ``names``
    open: set[int] = field(default_factory=set)
    terminal_phase: dict[int, TrialPhase] = field(default_factory=dict)
    terminal: Counter[TrialPhase] = field(default_factory=Counter)
    throughputs: dict[int, float] = field(default_factory=dict)  # of succeeded trials, in samples per second
    nodes: dict[int, dict[str, dict[str, None]]] = field(default_factory=dict)
    """session -> series -> nodes that its trials have run on, in order of first use"""
    began: dict[int, float] = field(default_factory=dict)
    """session -> when its first trial began, in Unix seconds"""
    horizon: Horizon | None = None  # None when results have changed since
    first_not_started: int = 0

    @classmethod
    def build(cls, plan: Plan, uid: str, generation: int, objects: ExperimentObjects) -> Self:
        """An index of everything cached so far."""
        names = [trial_name(plan.experiment, name) for name in plan.trials.names]
        index = cls(uid, generation, plan.spec, plan, names, {name: i for i, name in enumerate(names)})
        index.update(objects, {*objects.trials, *(job.trial for job in objects.jobs.values())})
        return index

    def trial(self, name: str) -> TrialSpec:
        return self.plan.trials[self.positions[name]]

    def runner(self, name: str) -> RunnerKind:
        return runner_for(self.spec, self.trial(name))

    def status_of(self, job: CachedJob) -> JobStatus:
        return self.runner(job.trial).read(job.body)

    def open_names(self) -> list[str]:
        return [self.names[position] for position in self.open]

    def update(self, objects: ExperimentObjects, names: Iterable[str]) -> None:
        for name in names:
            if (position := self.positions.get(name)) is not None:
                self._update(position, objects.trials.get(name), objects.jobs_of(name))

    def _update(self, position: int, trial: CachedTrial | None, jobs: list[CachedJob]) -> None:
        self.horizon = None
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
        if trial is not None:
            session, series = self.session(position), self.plan.trials.point(position).series
            if trial.nodes:
                self.nodes.setdefault(session, {}).setdefault(series, {}).update(dict.fromkeys(trial.nodes))
            if trial.started is not None:
                self.began[session] = min(trial.started, self.began.get(session, trial.started))
        if view.job is not Job.absent or not view.history or not is_terminal(self.spec, view):
            self.open.add(position)
            return
        self.open.discard(position)
        phase = self.terminal_phase[position] = view.history[-1]
        self.terminal[phase] += 1
        if phase is TrialPhase.succeeded and trial is not None and trial.throughput:
            self.throughputs[position] = trial.throughput

    def session(self, position: int) -> int:
        return position // (len(self.plan.points) * self.spec.measure.most_repetitions)

    def earlier_nodes(self, session: int) -> tuple[str, ...]:
        """Nodes that earlier sessions have run on."""
        by_series = [nodes for at, series in self.nodes.items() if at < session for nodes in series.values()]
        return tuple(dict.fromkeys(node for nodes in by_series for node in nodes))

    def observed(self, objects: ExperimentObjects) -> dict[str, Observed]:
        observed = {}
        for name in self.open_names():
            jobs = objects.jobs_of(name)
            observed[name] = observe(objects.trials.get(name), jobs, self.status_of(jobs[-1]) if jobs else None)
        return observed

    def decide(self, objects: ExperimentObjects, now: float) -> tuple[tuple[str, ...], Decision]:
        """What to do next, and the trials, in plan order, that its status lists the phases of.

        These are the open trials, and the next that were never started, as many as could start at once.
        """
        ahead = self.look_ahead(now)
        dropped = {at for at in ahead.dropped if at not in self.open and at not in self.terminal_phase}
        positions = range(self.first_not_started, ahead.end)
        waiting = (
            at for at in positions if at not in self.open and at not in self.terminal_phase and at not in dropped
        )
        upcoming = list(islice(waiting, self.spec.parallelism))
        self.first_not_started = upcoming[0] if upcoming else max(self.first_not_started, ahead.end)
        names = tuple(self.names[position] for position in sorted(self.open.union(upcoming)))
        not_started = len(self.names) - len(self.open) - len(self.terminal_phase) - len(dropped) - len(upcoming)
        observed = self.observed(objects)
        return names, decide(self.spec, names, observed, terminal=self.terminal, not_started=not_started)

    def look_ahead(self, now: float) -> Horizon:
        """How far the plan may be run now; worked out anew only when that may have changed."""
        measure, full = self.spec.measure, self.terminal[TrialPhase.full]
        if measure.precision is None and measure.sessions.count == 1 and not full:
            return Horizon(len(self.names))
        if self.horizon is None or (self.horizon.due is not None and now >= self.horizon.due):
            results = {position: self.throughputs.get(position) for position in self.terminal_phase}
            ends = [at for at, phase in self.terminal_phase.items() if phase is TrialPhase.full] if full else []
            self.horizon = horizon(self.spec, self.plan, results, self.began, now, ends)
        return self.horizon


def has_ended_job(objects: ExperimentObjects | None) -> bool:
    """Whether a result waits to be collected."""
    jobs = objects.jobs.values() if objects is not None else ()
    for job in jobs:
        runner = RUNNERS.get(job.body["kind"])
        if job.forced_end is not None or (runner is not None and runner.read(job.body).state is Job.ended):
            return True
    return False


def observe(trial: CachedTrial | None, jobs: list[CachedJob], status: JobStatus | None) -> Observed:
    """One trial as ``lifecycle`` looks at it.

    An attempt that was claimed, but whose job was never seen, is started again under the same number: the job's name
    keeps it from being created twice.
    """
    history = tuple(phase for _, phase in trial.history) if trial else ()
    collected = trial.collected if trial else {}
    attempts, phase = (trial.attempts, trial.phase) if trial else (0, None)
    if jobs:
        job = jobs[-1]
        state = status.state if status is not None else Job.starting
        if state is Job.starting and (attempts, phase) == (job.attempt, TrialPhase.running.value):
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
