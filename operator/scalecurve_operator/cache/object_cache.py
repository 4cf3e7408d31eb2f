"""The local object cache: what the watch streams and our own writes have shown.

Every object is cached with its resource version. An older version never replaces a newer one, nor a later object of the
same name: the answers to our own writes and their echo in the watch arrive in any order. Full statuses of trials are
kept only while those are open, so that ten thousand finished ones fit.
"""

import re
import time
from collections.abc import Mapping

from scalecurve_api.spec.object_names import ATTEMPT_LABEL, TRIAL_LABEL
from scalecurve_kube.resources import EXPERIMENTS, Object
from scalecurve_operator.cache.cached_objects import (
    FINAL_TRIAL_PHASES,
    Cached,
    CachedExperiment,
    CachedJob,
    CachedTrial,
    ExperimentObjects,
    Key,
    bounded,
    key_of,
    version_of,
)

_MAX_DELETED_UIDS = 10_000


class ObjectCache:
    """All cached objects by experiment. Every change returns the key to reconcile; None if nothing is new."""

    def __init__(self) -> None:
        self.experiments: dict[Key, ExperimentObjects] = {}
        self.unconfirmed: dict[str, tuple[int, float]] = {}
        """plural -> (version, monotonic time) of our oldest write that its watch has not shown yet"""
        self.watched: dict[str, int] = {}  # plural -> the newest version that its watch has shown
        self.deleted: dict[str, None] = {}
        """uids of deleted objects, oldest first: a watch that lags behind an answer of ours still shows them"""

    def objects(self, key: Key) -> ExperimentObjects:
        return self.experiments.setdefault(key, ExperimentObjects())

    def upsert_experiment(self, body: Object) -> Key | None:
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        if self._is_deleted(body) or not _is_newer(body, self.objects(key).experiment):
            return None
        for name in ("managedFields", "annotations"):
            body["metadata"].pop(name, None)
        body["spec"] = bounded(body.get("spec") or {})
        self.objects(key).experiment = CachedExperiment(body["metadata"]["uid"], version_of(body), body)
        return key

    def delete_experiment(self, body: Object) -> Key | None:
        """Its dependents are deleted by the garbage collector, each with an event of its own."""
        self._remember_deleted(body)
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        objects = self.experiments.get(key)
        if objects is None or not _is_same(objects.experiment, body):
            return None
        objects.experiment = None
        self._drop_empty(key, objects)
        return key

    def upsert_trial(self, body: Object) -> Key | None:
        key, name = key_of(body), body["metadata"]["name"]
        if key is None or self._is_deleted(body):
            return None
        if not _is_newer(body, cached := self.objects(key).trials.get(name)):
            return None
        self.objects(key).trials[name] = CachedTrial.from_body(body, cached)
        self.objects(key).changed.add(name)
        return key

    def delete_trial(self, body: Object) -> Key | None:
        self._remember_deleted(body)
        key, name = key_of(body), body["metadata"]["name"]
        objects = self.experiments.get(key) if key else None
        if key is None or objects is None or not _is_same(objects.trials.get(name), body):
            return None
        del objects.trials[name]
        objects.changed.add(name)
        self._drop_empty(key, objects)
        return key

    def upsert_job(self, body: Object) -> Key | None:
        key, name = key_of(body), body["metadata"]["name"]
        if key is None or not _is_ours(body["metadata"]["labels"]) or self._is_deleted(body):
            return None
        objects = self.objects(key)
        if not _is_newer(body, cached := objects.jobs.get(name)):
            if cached is not None:
                cached.last_seen = time.monotonic()
            return None
        job = objects.jobs[name] = CachedJob.from_body(body, cached)
        objects.changed.add(job.trial)
        return key

    def delete_job(self, body: Object) -> Key | None:
        self._remember_deleted(body)
        return self.forget_job(body)

    def forget_job(self, body: Object) -> Key | None:
        """Remove a job that may be shown again while it is being deleted.

        Its uid stays with its trial, so that the job is known to have existed.
        """
        key, name = key_of(body), body["metadata"]["name"]
        objects = self.experiments.get(key) if key else None
        if key is None or objects is None or not _is_same(objects.jobs.get(name), body):
            return None
        job = objects.jobs.pop(name)
        trial = objects.trials.get(job.trial)
        if trial is not None and (trial.uid, trial.attempts) == (job.owner, job.attempt):
            trial.job_uid = trial.job_uid or job.uid
        objects.changed.add(job.trial)
        self._drop_empty(key, objects)
        return key

    def note_write(self, plural: str, version: int) -> None:
        """Remember our oldest write that the watch has yet to show; it may have done so before we had the answer."""
        if version > self.watched.get(plural, 0):
            self.unconfirmed.setdefault(plural, (version, time.monotonic()))

    def note_watch(self, plural: str, version: int) -> None:
        self.watched[plural] = max(version, self.watched.get(plural, 0))
        oldest = self.unconfirmed.get(plural)
        if oldest is not None and version >= oldest[0]:
            del self.unconfirmed[plural]

    def _is_deleted(self, body: Object) -> bool:
        return body["metadata"]["uid"] in self.deleted

    def _remember_deleted(self, body: Object) -> None:
        self.deleted[body["metadata"]["uid"]] = None
        if len(self.deleted) > _MAX_DELETED_UIDS:
            del self.deleted[next(iter(self.deleted))]

    def _drop_empty(self, key: Key, objects: ExperimentObjects) -> None:
        if objects.experiment is None and not objects.trials and not objects.jobs:
            self.experiments.pop(key, None)


def trim(body: Object, plural: str) -> None:
    """Empty, in place, what ``ObjectCache`` does not keep of an object: kopf holds all that it has shown for a while.

    The cache keeps an experiment in full, and so the status of a job, and of a trial that has not ended. With thousands
    of finished trials the rest was most of the operator's memory at its start.
    """
    metadata, status = body["metadata"], body.get("status") or {}
    if plural == EXPERIMENTS.plural:
        metadata.pop("managedFields", None)
        return
    for name in ("managedFields", "ownerReferences", "annotations"):
        metadata.pop(name, None)
    (body.get("spec") or {}).clear()
    if status.get("phase") in FINAL_TRIAL_PHASES:
        status.clear()


def _is_ours(labels: Mapping[str, str]) -> bool:
    """Whether a job can be one of an attempt: anybody may label a job with anything."""
    return bool(labels.get(TRIAL_LABEL)) and re.fullmatch("[1-9][0-9]{0,8}", labels.get(ATTEMPT_LABEL, "1")) is not None


def _is_newer(body: Object, cached: Cached | None) -> bool:
    return cached is None or cached.version < version_of(body)


def _is_same(cached: Cached | None, body: Object) -> bool:
    return cached is not None and cached.uid == body["metadata"]["uid"]
