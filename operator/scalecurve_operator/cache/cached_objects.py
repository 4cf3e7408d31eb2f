"""Cached objects: of each kind as much as a reconcile needs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from scalecurve_api.lifecycle import ExperimentPhase
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, EXPERIMENT_LABEL, TRIAL_LABEL
from scalecurve_api.spec.trial import FINAL_PHASES, FailedReason, TrialPhase
from scalecurve_kube.resources import EXPERIMENTS, Object, unix_time
from scalecurve_operator.runners import RUNNERS

FINAL_TRIAL_PHASES = frozenset(phase.value for phase in FINAL_PHASES)
_FINAL_EXPERIMENT_PHASES = frozenset(phase.value for phase in ExperimentPhase if phase.final)

MOST_SPEC_BYTES = 256 << 10
"""Of an experiment's spec. A trial has 128 KiB at most, as a variable of a process."""
TOO_LARGE = "tooLarge"
"""All that is kept of a larger spec: the number of its bytes"""

Cause = tuple[FailedReason, str]  # Why an attempt failed, and a line about it for people


class Key(NamedTuple):
    """An experiment: the unit of reconciliation."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class CachedExperiment:
    """The full object: there are few of them, and a reconcile needs the spec."""

    uid: str
    version: int
    body: Object

    @property
    def spec(self) -> Object:
        return self.body.get("spec") or {}

    @property
    def status(self) -> Object:
        return self.body.get("status") or {}

    @property
    def generation(self) -> int:
        return int(self.body["metadata"].get("generation") or 0)

    @property
    def created(self) -> str:
        return str(self.body["metadata"].get("creationTimestamp") or "")

    @property
    def deleting(self) -> bool:
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @property
    def ended(self) -> bool:
        """Whether it is over; one that was refused before it began is not, once its spec has been changed."""
        status = self.status
        if status.get("phase") not in _FINAL_EXPERIMENT_PHASES:
            return False
        refused = status["phase"] == ExperimentPhase.failed.value and "total" not in status
        return not refused or status.get("observedGeneration") == self.generation


@dataclass(slots=True)
class CachedTrial:
    """A trial that was begun."""

    uid: str
    owner: str
    version: int
    attempts: int
    history: tuple[tuple[int, TrialPhase], ...]  # (attempt, final phase) of every attempt whose result was collected
    job_uid: str | None
    throughput: float | None  # None also while it is unproved: it enters no headline
    nodes: tuple[str, ...]
    phase: str | None
    started: float | None  # when its newest attempt began, in Unix seconds
    status: Object | None  # in full while the trial is open; None once it has ended

    @property
    def collected(self) -> dict[int, TrialPhase]:
        return dict(self.history)

    @classmethod
    def from_body(cls, body: Object, previous: Self | None) -> Self:
        uid, status = body["metadata"]["uid"], body.get("status") or {}
        attempts, job_uid, phase = int(status.get("attempts") or 0), status.get("jobUid"), status.get("phase")
        if previous is not None and previous.uid == uid and previous.attempts == attempts:
            job_uid = job_uid or previous.job_uid
        return cls(
            uid=uid,
            owner=_owner(body),
            version=version_of(body),
            attempts=attempts,
            history=tuple((int(past["attempt"]), TrialPhase(past["phase"])) for past in status.get("history", ())),
            job_uid=job_uid,
            throughput=None if status.get("unproved") else (status.get("summary") or {}).get("throughput"),
            nodes=tuple(status.get("nodes") or ()),
            phase=phase,
            started=unix_time(status["startedAt"]) if status.get("startedAt") else None,
            status=None if phase in FINAL_TRIAL_PHASES else status,
        )


@dataclass(slots=True)
class CachedJob:
    """The job of an attempt, trimmed to what its runner reads."""

    uid: str
    version: int
    attempt: int
    trial: str
    owner: str  # uid of the trial object that it was created for
    body: Object
    first_seen: float
    last_seen: float
    forced_end: Cause | None = None  # why the operator counts it as ended, whatever its own status says
    pod_problem: Cause | None = None
    """what its pods last suffered from while it was Starting: a job past its deadline has no pods any more"""
    has_companions: bool = False  # whether this process has made sure of the objects that go with it

    @classmethod
    def from_body(cls, body: Object, previous: Self | None) -> Self:
        tags, now = body["metadata"]["labels"], time.monotonic()
        job = cls(
            uid=body["metadata"]["uid"],
            version=version_of(body),
            attempt=int(tags.get(ATTEMPT_LABEL) or 1),
            trial=tags[TRIAL_LABEL],
            owner=_owner(body),
            body=trim_job(body),
            first_seen=now,
            last_seen=now,
        )
        if previous is not None and previous.uid == job.uid:
            job.first_seen, job.has_companions = previous.first_seen, previous.has_companions
            job.forced_end, job.pod_problem = previous.forced_end, previous.pod_problem
        return job

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def deleting(self) -> bool:
        return bool(self.body["metadata"].get("deletionTimestamp"))


Cached = CachedExperiment | CachedTrial | CachedJob


@dataclass(slots=True)
class ExperimentObjects:
    """An experiment, its trials and their jobs; ``changed`` names the trials to look at again."""

    experiment: CachedExperiment | None = None
    trials: dict[str, CachedTrial] = field(default_factory=dict)
    jobs: dict[str, CachedJob] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    @property
    def settled(self) -> bool:
        """Whether the experiment has ended with no job to delete and no attempt to end; a refused one has neither."""
        experiment = self.experiment
        if experiment is None or not experiment.ended:
            return False
        planned = "total" in experiment.status
        return not (planned and (self.jobs or self.find_abandoned(experiment.uid)))

    def jobs_of(self, trial: str) -> list[CachedJob]:
        """A trial's jobs, oldest attempt first: at most one, except for the moment in which one is replaced.

        Jobs of an earlier trial object of the same name are excluded; the garbage collector is about to remove them.
        """
        prefix, cached = f"{trial}-a", self.trials.get(trial)
        jobs = [job for name, job in self.jobs.items() if name.startswith(prefix) and job.trial == trial]
        return sorted((job for job in jobs if cached is None or job.owner == cached.uid), key=lambda job: job.attempt)

    def find_abandoned(self, uid: str) -> list[str]:
        """Trials of the experiment ``uid`` whose newest attempt has neither a job nor a result."""
        return [
            name
            for name, trial in self.trials.items()
            if trial.owner == uid and trial.attempts not in trial.collected and not self.jobs_of(name)
        ]

    def take_changed(self) -> set[str]:
        changed, self.changed = self.changed, set()
        return changed


def bounded(spec: Object) -> Object:
    """A spec as it is kept: one of more text than any job could carry is only its size, and is refused for it."""
    size = _text_in(spec)
    return {TOO_LARGE: size} if size > MOST_SPEC_BYTES else spec


def _text_in(tree: Any) -> int:
    if isinstance(tree, Mapping):
        return sum(len(name) + _text_in(value) for name, value in tree.items())
    if isinstance(tree, list):
        return sum(map(_text_in, tree))
    return len(tree) if isinstance(tree, str) else 8


def key_of(body: Mapping[str, Any]) -> Key | None:
    """The experiment that an object is or belongs to."""
    metadata = body["metadata"]
    experiment = (metadata.get("labels") or {}).get(EXPERIMENT_LABEL)
    if body.get("kind") == EXPERIMENTS.kind:
        experiment = metadata["name"]
    return Key(metadata["namespace"], experiment) if experiment else None


def version_of(body: Mapping[str, Any]) -> int:
    """An object's resource version; they grow over all objects of a kind."""
    return int(body["metadata"]["resourceVersion"])


def trim_job(body: Object) -> Object:
    """A job without what its runner does not read."""
    metadata, runner = body["metadata"], RUNNERS.get(body.get("kind") or "")
    kept = {name: metadata.get(name) for name in ("name", "namespace", "uid", "deletionTimestamp", "creationTimestamp")}
    tags = metadata["labels"]
    kept["labels"] = {name: tags[name] for name in (EXPERIMENT_LABEL, TRIAL_LABEL, ATTEMPT_LABEL) if name in tags}
    return {
        "kind": body.get("kind"),
        "metadata": kept,
        "spec": runner.trim(body.get("spec") or {}) if runner else {},
        "status": body.get("status") or {},
    }


def _owner(body: Mapping[str, Any]) -> str:
    return next((str(owner["uid"]) for owner in body["metadata"].get("ownerReferences") or ()), "")
