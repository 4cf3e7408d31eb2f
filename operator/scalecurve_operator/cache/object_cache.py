"""What the watch streams and our own writes have shown, as little of it as deciding needs.

An object is remembered with the version at which it was seen, and an older one is never put over a newer, nor over
another object made later under its name: answers to our own writes and their echo in the watch come in any order.
Whole statuses of trials are kept only while those are open: ten thousand finished ones must fit beside.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scalecurve_api.lifecycle import ExperimentPhase
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, EXPERIMENT_LABEL, TRIAL_LABEL
from scalecurve_api.spec.trial import FINAL_PHASES, FailedReason, TrialPhase
from scalecurve_kube.client import Object

EXPERIMENT_FINAL = frozenset(phase.value for phase in ExperimentPhase if phase.final)
_FINAL = frozenset(phase.value for phase in FINAL_PHASES)
_MOST_GONE = 10_000


class Key(NamedTuple):
    """An experiment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class ExperimentSeen:
    """The whole object: there are few of them, and the spec is asked for."""

    uid: str
    version: int
    body: Object

    @property
    def status(self) -> Object:
        """As last written; empty before the first time."""
        return self.body.get("status") or {}

    @property
    def generation(self) -> int:
        """Counts changes of the spec."""
        return int(self.body["metadata"].get("generation") or 0)

    @property
    def created(self) -> str:
        """RFC 3339, to the second."""
        return str(self.body["metadata"].get("creationTimestamp") or "")

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @property
    def ended(self) -> bool:
        """Whether it is over; one that was refused before it began is not, once it has been given another spec."""
        status = self.status
        if status.get("phase") not in EXPERIMENT_FINAL:
            return False
        refused = status["phase"] == ExperimentPhase.failed.value and "total" not in status
        return not refused or status.get("observedGeneration") == self.generation


@dataclass(slots=True)
class TrialSeen:
    """A trial that was begun. ``history`` holds (attempt, final phase) of every attempt whose result is kept."""

    uid: str
    owner: str
    version: int
    attempts: int
    history: tuple[tuple[int, TrialPhase], ...]
    job_uid: str | None
    throughput: float | None
    nodes: tuple[str, ...]
    phase: str | None
    status: Object | None
    """whole while the trial is open; None once it was seen ended"""


@dataclass(slots=True)
class JobSeen:
    """The job of an attempt: its object, trimmed to what reading it needs."""

    uid: str
    version: int
    attempt: int
    trial: str
    owner: str
    """uid of the trial object that it was made for"""
    body: Object
    first_seen: float
    last_seen: float
    given_up: tuple[FailedReason, str] | None = None
    """why the controller counts it as ended, whatever it says itself"""
    stuck: tuple[FailedReason, str] | None = None
    """what its pods were last seen to suffer from while it was Starting: a job past its deadline has none any more"""
    accompanied: bool = False
    """whether this process has seen to what must stand beside it"""

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""
        return bool(self.body["metadata"].get("deletionTimestamp"))


@dataclass(slots=True)
class Family:
    """An experiment and what belongs to it; ``touched`` names the trials to look at anew."""

    experiment: ExperimentSeen | None = None
    trials: dict[str, TrialSeen] = field(default_factory=dict)
    jobs: dict[str, JobSeen] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)


class Sightings:
    """Everything seen, by experiment. Each ``see`` and ``lose`` gives the experiment to look at, or None."""

    def __init__(self) -> None:
        self.families: dict[Key, Family] = {}
        self.unechoed: dict[str, tuple[int, float]] = {}
        """kind -> (version, monotonic time) of our oldest write that its watch stream has not shown yet"""
        self.shown: dict[str, int] = {}
        """kind -> the newest version that its watch stream has shown"""
        self.gone: dict[str, None] = {}
        """uids of what was deleted, oldest first: a stream that lags behind an answer of ours still shows them"""

    def family(self, key: Key) -> Family:
        """Made when first asked for."""
        return self.families.setdefault(key, Family())

    def see_experiment(self, body: Object) -> Key | None:
        """A ScalingExperiment as it is now."""
        metadata = body["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        if metadata["uid"] in self.gone:
            return None
        family, version = self.family(key), int(metadata["resourceVersion"])
        known = family.experiment
        if known is not None and known.version >= version:
            return None
        metadata.pop("managedFields", None)
        family.experiment = ExperimentSeen(metadata["uid"], version, body)
        return key

    def lose_experiment(self, body: Object) -> Key | None:
        """It is gone; what it owned follows by itself."""
        self._bury(body)
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        family = self.families.get(key)
        if family is None or family.experiment is None or family.experiment.uid != body["metadata"]["uid"]:
            return None
        family.experiment = None
        self._drop_empty(key, family)
        return key

    def see_trial(self, body: Object) -> Key | None:
        """A ScalingTrial as it is now."""
        key, name = _key(body), body["metadata"]["name"]
        if key is None or body["metadata"]["uid"] in self.gone:
            return None
        family, version = self.family(key), int(body["metadata"]["resourceVersion"])
        known = family.trials.get(name)
        if known is not None and known.version >= version:
            return None
        family.trials[name] = _trial_seen(body, version, known)
        family.touched.add(name)
        return key

    def lose_trial(self, body: Object) -> Key | None:
        """Deleted behind our back, or with its experiment."""
        self._bury(body)
        key, name = _key(body), body["metadata"]["name"]
        family = self.families.get(key) if key else None
        known = family.trials.get(name) if family else None
        if key is None or family is None or known is None or known.uid != body["metadata"]["uid"]:
            return None
        del family.trials[name]
        family.touched.add(name)
        self._drop_empty(key, family)
        return key

    def see_job(self, body: Object) -> Key | None:
        """A job of any kind as it is now."""
        key, name = _key(body), body["metadata"]["name"]
        labels = body["metadata"].get("labels") or {}
        if key is None or TRIAL_LABEL not in labels or body["metadata"]["uid"] in self.gone:
            return None
        family, version = self.family(key), int(body["metadata"]["resourceVersion"])
        known, now = family.jobs.get(name), time.monotonic()
        if known is not None and known.version >= version:
            known.last_seen = now
            return None
        same = known if known is not None and known.uid == body["metadata"]["uid"] else None
        attempt, trial = int(labels.get(ATTEMPT_LABEL) or 1), labels[TRIAL_LABEL]
        family.jobs[name] = JobSeen(
            body["metadata"]["uid"],
            version,
            attempt,
            trial,
            _owner(body),
            _trimmed(body),
            same.first_seen if same else now,
            now,
            same.given_up if same else None,
            same.stuck if same else None,
            same is not None and same.accompanied,
        )
        family.touched.add(trial)
        return key

    def lose_job(self, body: Object) -> Key | None:
        """It is gone; its uid stays with its trial, so that it is known to have been there."""
        self._bury(body)
        return self.forget_job(body)

    def forget_job(self, body: Object) -> Key | None:
        """As ``lose_job`` of one that is only asked to go: while it is on its way out it may be seen again."""
        key, name = _key(body), body["metadata"]["name"]
        family = self.families.get(key) if key else None
        known = family.jobs.get(name) if family else None
        if key is None or family is None or known is None or known.uid != body["metadata"]["uid"]:
            return None
        del family.jobs[name]
        trial = family.trials.get(known.trial)
        theirs = trial is not None and (trial.uid, trial.attempts) == (known.owner, known.attempt)
        if trial is not None and theirs and trial.job_uid is None:
            trial.job_uid = known.uid
        family.touched.add(known.trial)
        self._drop_empty(key, family)
        return key

    def wrote(self, kind: str, version: int) -> None:
        """Remember our oldest write that the watch has yet to show; it may have done so before we had the answer."""
        if version > self.shown.get(kind, 0):
            self.unechoed.setdefault(kind, (version, time.monotonic()))

    def echoed(self, kind: str, version: int) -> None:
        """The watch stream of ``kind`` has come to ``version``."""
        self.shown[kind] = max(version, self.shown.get(kind, 0))
        waiting = self.unechoed.get(kind)
        if waiting is not None and version >= waiting[0]:
            del self.unechoed[kind]

    def _bury(self, body: Object) -> None:
        self.gone[body["metadata"]["uid"]] = None
        if len(self.gone) > _MOST_GONE:
            del self.gone[next(iter(self.gone))]

    def _drop_empty(self, key: Key, family: Family) -> None:
        if family.experiment is None and not family.trials and not family.jobs:
            self.families.pop(key, None)


def _key(body: Mapping[str, Any]) -> Key | None:
    metadata = body["metadata"]
    experiment = (metadata.get("labels") or {}).get(EXPERIMENT_LABEL)
    return Key(metadata["namespace"], experiment) if experiment else None


def _owner(body: Mapping[str, Any]) -> str:
    return next((str(owner["uid"]) for owner in body["metadata"].get("ownerReferences") or ()), "")


def _trial_seen(body: Object, version: int, known: TrialSeen | None) -> TrialSeen:
    metadata, status = body["metadata"], body.get("status") or {}
    history = tuple((int(past["attempt"]), TrialPhase(past["phase"])) for past in status.get("history", ()))
    attempts, uid = int(status.get("attempts") or 0), status.get("jobUid")
    if known is not None and known.uid == metadata["uid"] and known.attempts == attempts:
        uid = uid or known.job_uid
    summary = status.get("summary") or {}
    phase = status.get("phase")
    return TrialSeen(
        uid=metadata["uid"],
        owner=_owner(body),
        version=version,
        attempts=attempts,
        history=history,
        job_uid=uid,
        throughput=summary.get("throughput"),
        nodes=tuple(status.get("nodes") or ()),
        phase=phase,
        status=None if phase in _FINAL else status,
    )


def _trimmed(body: Object) -> Object:
    metadata = body["metadata"]
    kept = {name: metadata.get(name) for name in ("name", "namespace", "uid", "deletionTimestamp", "creationTimestamp")}
    spec = body.get("spec") or {}
    run_policy = spec.get("runPolicy") or {}
    trimmed = {name: spec[name] for name in ("suspend", "completions", "parallelism") if name in spec}
    if "suspend" in run_policy:
        trimmed["runPolicy"] = {"suspend": run_policy["suspend"]}
    for name, roles in spec.items():
        if name.endswith("ReplicaSpecs"):
            trimmed[name] = {role: {"replicas": each.get("replicas", 1)} for role, each in roles.items()}
    return {"kind": body.get("kind"), "metadata": kept, "spec": trimmed, "status": body.get("status") or {}}
