"""The local object cache: what the watch streams and our own writes have shown, trimmed to what a reconcile needs.

Every object is cached with its resource version. An older version never replaces a newer one, nor a later object of the
same name: the answers to our own writes and their echo in the watch arrive in any order. Full statuses of trials are
kept only while those are open, so that ten thousand finished ones fit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scalecurve_api.lifecycle import ExperimentPhase
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, EXPERIMENT_LABEL, TRIAL_LABEL
from scalecurve_api.spec.trial import FINAL_PHASES, FailedReason, TrialPhase
from scalecurve_kube.resources import Object
from scalecurve_operator.runners import RUNNERS

FINAL_TRIAL_PHASES = frozenset(phase.value for phase in FINAL_PHASES)
_FINAL_EXPERIMENT_PHASES = frozenset(phase.value for phase in ExperimentPhase if phase.final)
_MAX_DELETED_UIDS = 10_000

Cause = tuple[FailedReason, str]
"""Why an attempt failed, and a line about it for people."""


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
    history: tuple[tuple[int, TrialPhase], ...]
    """(attempt, final phase) of every attempt whose result was collected"""
    job_uid: str | None
    throughput: float | None
    nodes: tuple[str, ...]
    phase: str | None
    status: Object | None
    """in full while the trial is open; None once it has ended"""

    @property
    def collected(self) -> dict[int, TrialPhase]:
        return dict(self.history)


@dataclass(slots=True)
class CachedJob:
    """The job of an attempt, trimmed to what its runner reads."""

    uid: str
    version: int
    attempt: int
    trial: str
    owner: str
    """uid of the trial object that it was created for"""
    body: Object
    first_seen: float
    last_seen: float
    forced_end: Cause | None = None
    """why the operator counts it as ended, whatever its own status says"""
    pod_problem: Cause | None = None
    """what its pods last suffered from while it was Starting: a job past its deadline has no pods any more"""
    has_companions: bool = False
    """whether this process has made sure of the objects that go with it"""

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def deleting(self) -> bool:
        return bool(self.body["metadata"].get("deletionTimestamp"))


@dataclass(slots=True)
class ExperimentObjects:
    """An experiment, its trials and their jobs; ``changed`` names the trials to look at again."""

    experiment: CachedExperiment | None = None
    trials: dict[str, CachedTrial] = field(default_factory=dict)
    jobs: dict[str, CachedJob] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        return self.experiment is None and not self.trials and not self.jobs

    def jobs_of(self, trial: str) -> list[CachedJob]:
        """A trial's jobs, oldest attempt first: at most one, except for the moment in which one is replaced.

        Jobs of an earlier trial object of the same name are left out; the garbage collector is about to remove them.
        """
        prefix, cached = f"{trial}-a", self.trials.get(trial)
        jobs = [job for name, job in self.jobs.items() if name.startswith(prefix) and job.trial == trial]
        jobs = [job for job in jobs if cached is None or job.owner == cached.uid]
        return sorted(jobs, key=lambda job: job.attempt)

    def abandoned(self, uid: str) -> list[str]:
        """Trials of the experiment ``uid`` whose newest attempt has neither a job nor a result."""
        return [
            name
            for name, trial in self.trials.items()
            if trial.owner == uid and trial.attempts not in trial.collected and not self.jobs_of(name)
        ]

    def take_changed(self) -> set[str]:
        changed, self.changed = self.changed, set()
        return changed


class ObjectCache:
    """All cached objects by experiment. Every change returns the key to reconcile; None if nothing is new."""

    def __init__(self) -> None:
        self.experiments: dict[Key, ExperimentObjects] = {}
        self.unconfirmed: dict[str, tuple[int, float]] = {}
        """plural -> (version, monotonic time) of our oldest write that its watch has not shown yet"""
        self.watched: dict[str, int] = {}
        """plural -> the newest version that its watch has shown"""
        self.deleted: dict[str, None] = {}
        """uids of deleted objects, oldest first: a watch that lags behind an answer of ours still shows them"""

    def objects(self, key: Key) -> ExperimentObjects:
        """Created on first use."""
        return self.experiments.setdefault(key, ExperimentObjects())

    def upsert_experiment(self, body: Object) -> Key | None:
        metadata = body["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        if metadata["uid"] in self.deleted:
            return None
        objects, version = self.objects(key), int(metadata["resourceVersion"])
        if objects.experiment is not None and objects.experiment.version >= version:
            return None
        metadata.pop("managedFields", None)
        objects.experiment = CachedExperiment(metadata["uid"], version, body)
        return key

    def delete_experiment(self, body: Object) -> Key | None:
        """Its dependents are deleted by the garbage collector, each with an event of its own."""
        self._remember_deleted(body)
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        objects = self.experiments.get(key)
        if objects is None or objects.experiment is None or objects.experiment.uid != body["metadata"]["uid"]:
            return None
        objects.experiment = None
        self._drop_empty(key, objects)
        return key

    def upsert_trial(self, body: Object) -> Key | None:
        key, name = _key(body), body["metadata"]["name"]
        if key is None or body["metadata"]["uid"] in self.deleted:
            return None
        objects, version = self.objects(key), int(body["metadata"]["resourceVersion"])
        cached = objects.trials.get(name)
        if cached is not None and cached.version >= version:
            return None
        objects.trials[name] = _trial(body, version, cached)
        objects.changed.add(name)
        return key

    def delete_trial(self, body: Object) -> Key | None:
        self._remember_deleted(body)
        key, name = _key(body), body["metadata"]["name"]
        objects = self.experiments.get(key) if key else None
        cached = objects.trials.get(name) if objects else None
        if key is None or objects is None or cached is None or cached.uid != body["metadata"]["uid"]:
            return None
        del objects.trials[name]
        objects.changed.add(name)
        self._drop_empty(key, objects)
        return key

    def upsert_job(self, body: Object) -> Key | None:
        """A job of any kind."""
        key, metadata = _key(body), body["metadata"]
        tags = metadata.get("labels") or {}
        if key is None or TRIAL_LABEL not in tags or metadata["uid"] in self.deleted:
            return None
        objects, version, now = self.objects(key), int(metadata["resourceVersion"]), time.monotonic()
        cached = objects.jobs.get(metadata["name"])
        if cached is not None and cached.version >= version:
            cached.last_seen = now
            return None
        job = CachedJob(
            uid=metadata["uid"],
            version=version,
            attempt=int(tags.get(ATTEMPT_LABEL) or 1),
            trial=tags[TRIAL_LABEL],
            owner=_owner(body),
            body=_trimmed_job(body),
            first_seen=now,
            last_seen=now,
        )
        if cached is not None and cached.uid == job.uid:
            job.first_seen, job.forced_end, job.pod_problem = cached.first_seen, cached.forced_end, cached.pod_problem
            job.has_companions = cached.has_companions
        objects.jobs[metadata["name"]] = job
        objects.changed.add(job.trial)
        return key

    def delete_job(self, body: Object) -> Key | None:
        self._remember_deleted(body)
        return self.forget_job(body)

    def forget_job(self, body: Object) -> Key | None:
        """Remove a job that may be shown again while it is being deleted.

        Its uid stays with its trial, so that the job is known to have existed.
        """
        key, name = _key(body), body["metadata"]["name"]
        objects = self.experiments.get(key) if key else None
        cached = objects.jobs.get(name) if objects else None
        if key is None or objects is None or cached is None or cached.uid != body["metadata"]["uid"]:
            return None
        del objects.jobs[name]
        trial = objects.trials.get(cached.trial)
        if trial is not None and (trial.uid, trial.attempts) == (cached.owner, cached.attempt):
            trial.job_uid = trial.job_uid or cached.uid
        objects.changed.add(cached.trial)
        self._drop_empty(key, objects)
        return key

    def note_write(self, plural: str, version: int) -> None:
        """Remember our oldest write that the watch has yet to show; it may have done so before we had the answer."""
        if version > self.watched.get(plural, 0):
            self.unconfirmed.setdefault(plural, (version, time.monotonic()))

    def note_watch(self, plural: str, version: int) -> None:
        """The watch of ``plural`` has reached ``version``."""
        self.watched[plural] = max(version, self.watched.get(plural, 0))
        oldest = self.unconfirmed.get(plural)
        if oldest is not None and version >= oldest[0]:
            del self.unconfirmed[plural]

    def _remember_deleted(self, body: Object) -> None:
        self.deleted[body["metadata"]["uid"]] = None
        if len(self.deleted) > _MAX_DELETED_UIDS:
            del self.deleted[next(iter(self.deleted))]

    def _drop_empty(self, key: Key, objects: ExperimentObjects) -> None:
        if objects.empty:
            self.experiments.pop(key, None)


def _key(body: Mapping[str, Any]) -> Key | None:
    metadata = body["metadata"]
    experiment = (metadata.get("labels") or {}).get(EXPERIMENT_LABEL)
    return Key(metadata["namespace"], experiment) if experiment else None


def _owner(body: Mapping[str, Any]) -> str:
    return next((str(owner["uid"]) for owner in body["metadata"].get("ownerReferences") or ()), "")


def _trial(body: Object, version: int, previous: CachedTrial | None) -> CachedTrial:
    metadata, status = body["metadata"], body.get("status") or {}
    attempts, job_uid, phase = int(status.get("attempts") or 0), status.get("jobUid"), status.get("phase")
    if previous is not None and previous.uid == metadata["uid"] and previous.attempts == attempts:
        job_uid = job_uid or previous.job_uid
    return CachedTrial(
        uid=metadata["uid"],
        owner=_owner(body),
        version=version,
        attempts=attempts,
        history=tuple((int(past["attempt"]), TrialPhase(past["phase"])) for past in status.get("history", ())),
        job_uid=job_uid,
        throughput=(status.get("summary") or {}).get("throughput"),
        nodes=tuple(status.get("nodes") or ()),
        phase=phase,
        status=None if phase in FINAL_TRIAL_PHASES else status,
    )


def _trimmed_job(body: Object) -> Object:
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
