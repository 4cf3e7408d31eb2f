"""One trial under reconciliation: its object, its jobs, and the requests that are about them.

An object is written against the version that was seen when the action on it began, so that an operator that acts on an
older one is refused.
"""

import secrets
from dataclasses import dataclass, field

from scalecurve_api.spec.object_names import job_name, labels
from scalecurve_api.spec.placeholders import filled
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import EXPERIMENTS, SERVICES, TRIALS, Object, Resource, owner_uids, resource_of
from scalecurve_operator.cache.cached_objects import CachedJob, CachedTrial, Cause
from scalecurve_operator.reconcile.policy import record_share
from scalecurve_operator.reconcile.reconciliation import Reconciliation
from scalecurve_operator.runners import JobRequest, JobStatus, RunnerKind

PERMANENT = (400, 403, 422)
"""Denied, invalid, over a quota: creating the same object again would not help this attempt."""


class ConflictError(Exception):
    """The cache is behind the cluster; reconcile again."""


class NameTakenError(ConflictError):
    """An object of another owner has a name that this experiment needs, and may keep it."""


@dataclass
class TrialReconciliation:
    """A trial of ``rec``, for one action on it; ``seen`` is its object as the action found it or last wrote it."""

    rec: Reconciliation
    name: str
    seen: CachedTrial | None = field(init=False)

    def __post_init__(self) -> None:
        self.seen = self.rec.objects.trials.get(self.name)

    @property
    def object(self) -> CachedTrial:
        """Return its ScalingTrial; raise ConflictError if there is none."""
        if self.seen is None:
            raise ConflictError(f"{self.name} was deleted, and its job is still there")
        return self.seen

    @property
    def jobs(self) -> list[CachedJob]:
        """Return its jobs, oldest attempt first."""
        return self.rec.objects.jobs_of(self.name)

    @property
    def spec(self) -> TrialSpec:
        return self.rec.index.trial(self.name)

    @property
    def runner(self) -> RunnerKind:
        return self.rec.index.runner(self.name)

    @property
    def resource(self) -> Resource:
        """Return the kind of its jobs."""
        return resource_of(self.runner.runner)

    def status_of(self, job: CachedJob) -> JobStatus:
        return self.rec.index.status_of(job)

    def request(self, attempt: int) -> JobRequest:
        """Return what a runner renders the job of an attempt from."""
        rec, spec = self.rec, self.spec
        return JobRequest(
            experiment=rec.key.name,
            namespace=rec.key.namespace,
            spec=rec.index.spec,
            trial=filled(spec),
            trial_object=self.name,
            attempt=attempt,
            images=rec.settings.images,
            record_bytes=record_share(rec.settings, rec.index),
            nodes=tuple(rec.index.nodes.get(spec.session, {}).get(spec.point.series, ())),
            earlier_nodes=rec.index.earlier_nodes(spec.session),
            metrics_port=rec.settings.worker_metrics_port,
            linger_seconds=rec.settings.linger_seconds,
            secret=secrets.token_hex(16),
        )

    async def create_companions(self, job: CachedJob) -> None:
        """Create what goes with a job, once per job and process: a kill may have come in between."""
        request = self.request(job.attempt)
        owner = self.resource.owner(request.job, job.uid, blockOwnerDeletion=False)
        try:
            for companion in self.runner.companions(request, job.body):
                companion["metadata"]["ownerReferences"] = [owner]
                await self.rec.cluster.create(SERVICES, self.rec.key.namespace, companion)
        except ApiStatusError as refused:
            if refused.status not in PERMANENT:
                raise
            self.end(job, (FailedReason.start_failed, f"cannot create its Service: {refused.message}"))
        job.has_companions = True

    def end(self, job: CachedJob, cause: Cause) -> None:
        """Count a job as ended, whatever its own status says."""
        job.forced_end = cause
        self.rec.objects.changed.add(self.name)

    async def create(self) -> None:
        """Create its object.

        Raises:
            NameTakenError: another owner's object has the name.
            ConflictError: it already exists, or was deleted again at once.
        """
        namespace, uid = self.rec.key.namespace, self.rec.index.uid
        body = TRIALS.body(
            name=self.name,
            namespace=namespace,
            labels=labels(self.rec.key.name),
            ownerReferences=[EXPERIMENTS.owner(self.rec.key.name, uid, blockOwnerDeletion=False, controller=True)],
        )
        created = await self.rec.cluster.create(TRIALS, namespace, {**body, "spec": self.spec.wire()})
        if created is None:
            # Whoever created it may have gone on with it; our watch has not shown it yet.
            current = await self.rec.cluster.get(TRIALS, namespace, self.name)
            if current is not None:
                self.rec.cache.upsert_trial(current)
                if uid not in owner_uids(current):
                    raise NameTakenError(f"ScalingTrial {self.name} exists and belongs to another owner")
            raise ConflictError(f"{self.name} already exists")
        self._see(created)

    async def full_status(self) -> Object:
        """Return its full status; that of an ended one is fetched."""
        trial = self.object
        if trial.status is None:
            current = await self.rec.cluster.get(TRIALS, self.rec.key.namespace, self.name)
            if current is None or int(current["metadata"]["resourceVersion"]) != trial.version:
                self._update_cache(current)
                raise ConflictError(f"{self.name} has changed")
            trial.status = current.get("status") or {}
        return trial.status

    async def write_status(self, status: Object) -> None:
        """Write its status against the version that was seen."""
        trial = self.object
        body = TRIALS.body(name=self.name, uid=trial.uid, resourceVersion=str(trial.version))
        try:
            written = await self.rec.cluster.apply(TRIALS, self.rec.key.namespace, {**body, "status": status}, "status")
        except ApiStatusError as refused:
            if refused.status not in (404, 409):
                raise
            await self.refetch()
            raise ConflictError(f"{self.name}: {refused.message}") from refused
        self._see(written)

    async def refetch(self) -> None:
        """Fetch an object that may be gone, or another one by now."""
        self._update_cache(await self.rec.cluster.get(TRIALS, self.rec.key.namespace, self.name))

    async def fetch_job(self, job: str) -> Object | None:
        return await self.rec.cluster.get(self.resource, self.rec.key.namespace, job)

    async def require_no_job(self) -> None:
        """Raise ConflictError if the newest attempt, whose job seems lost, has one that no watch has shown."""
        trial = self.object
        if trial.attempts == 0 or trial.attempts in trial.collected:
            return
        job = await self.fetch_job(job_name(self.name, trial.attempts))
        if job is not None and trial.uid in owner_uids(job):
            self.rec.cache.upsert_job(job)
            raise ConflictError(f"{job['metadata']['name']} exists after all")

    def _update_cache(self, current: Object | None) -> None:
        """A watch that started over never reports what was deleted in between."""
        if current is not None:
            self.rec.cache.upsert_trial(current)
        else:
            key, uid = self.rec.key, self.object.uid
            metadata = {"name": self.name, "namespace": key.namespace, "uid": uid, "labels": labels(key.name)}
            self.rec.cache.delete_trial({"metadata": metadata})

    def _see(self, written: Object) -> None:
        self.rec.cache.upsert_trial(written)
        self.rec.cache.note_write(TRIALS.plural, int(written["metadata"]["resourceVersion"]))
        if self.name not in self.rec.objects.trials:
            raise ConflictError(f"{self.name} was deleted meanwhile")
        self.seen = self.rec.objects.trials[self.name]
