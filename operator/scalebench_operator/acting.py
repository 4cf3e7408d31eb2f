"""Carrying out what was decided, one attempt at a time. Each step may be cut by a kill, and repeated, without harm."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from scalebench_api.lifecycle import Job
from scalebench_api.objects import job_name, labels
from scalebench_api.trial import FailedReason, TrialPhase
from scalebench_operator import pods as read_pods
from scalebench_operator import statuses
from scalebench_operator.cluster import (
    EVENTS,
    EXPERIMENTS,
    PODS,
    SERVICES,
    TRIALS,
    Cluster,
    Object,
    Refused,
    Resource,
)
from scalebench_operator.collect import Attempt, collect, owner_of_record
from scalebench_operator.ledger import Ledger, jobs_of
from scalebench_operator.metrics import TRIAL_START, TRIALS_ENDED
from scalebench_operator.notices import Notices
from scalebench_operator.runners import RUNNERS, Reading, Request, RequestError, RunnerKind
from scalebench_operator.settings import Settings
from scalebench_operator.sightings import Family, JobSeen, Key, Sightings, TrialSeen

_GRACE_S = 30.0
"""A job gets so long after its deadline to end by itself, with its own evidence."""
_SILENT_S = 60.0
"""A job that no event has shown for so long is asked for."""

logger = logging.getLogger(__name__)


class Conflict(Exception):
    """What we saw is not what is there any more; look again."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a closer look at a slow job found."""

    waiting: str | None = None
    changed: bool = False


def resource_of(runner: RunnerKind) -> Resource:
    """Where the API server keeps this kind of job."""
    return Resource(runner.group, runner.version, runner.plural, runner.kind)


class Acting:
    """The steps of an attempt against one cluster."""

    def __init__(self, cluster: Cluster, settings: Settings, sightings: Sightings, notices: Notices) -> None:
        self.cluster, self.settings, self.sightings, self.notices = cluster, settings, sightings, notices

    async def start(self, key: Key, family: Family, ledger: Ledger, name: str, attempt: int) -> bool:
        """Make the trial if it is not there, claim the attempt, create its job."""
        trial = family.trials.get(name) or await self._make_trial(key, family, ledger, name)
        if trial.owner != ledger.uid:
            raise Conflict(f"{name} still belongs to an earlier experiment of this name")
        if any(past >= attempt for past, _ in trial.history):
            raise Conflict(f"{name} has its result of attempt {attempt}")
        if attempt > trial.attempts:
            await self._make_sure_that_it_is_gone(key, ledger, name, trial)
        now = time.time()
        status = statuses.claimed(await self._status(key, name, trial), attempt, job_name(name, attempt), now)
        trial = await self._write(key, family, name, trial, status)
        request = self._request(key, ledger, name, attempt)
        runner = ledger.runner(name)
        try:
            job = runner.render(request)
        except RequestError as error:
            await self._fail_start(key, family, ledger, name, trial, attempt, FailedReason.start_failed, str(error))
            return True
        job["metadata"]["ownerReferences"] = [self._owner(TRIALS, name, trial.uid)]
        try:
            created = await self.cluster.create(resource_of(runner), key.namespace, job)
        except Refused as refused:
            # Denied, invalid, over a quota of jobs: asking again would not help this attempt.
            if refused.status in (400, 403, 422):
                reason = FailedReason.job_rejected
                await self._fail_start(key, family, ledger, name, trial, attempt, reason, refused.message)
                return True
            raise
        if created is None:
            created = await self.cluster.get(resource_of(runner), key.namespace, request.job)
            if created is None or trial.uid not in _owners(created):
                raise Conflict(f"a job {request.job} is there that is not this trial's")
        logger.info("%s: started %s attempt %d as %s %s", key, name, attempt, runner.kind, request.job)
        self.sightings.see_job(created)
        await self.accompany(key, family, ledger, family.jobs[request.job])
        return True

    async def accompany(self, key: Key, family: Family, ledger: Ledger, job: JobSeen) -> None:
        """Make what must stand beside a job, once for every job and process: a kill may have come in between."""
        runner, request = ledger.runner(job.trial), self._request(key, ledger, job.trial, job.attempt)
        try:
            for companion in runner.companions(request, job.body):
                companion["metadata"]["ownerReferences"] = [self._owner(resource_of(runner), request.job, job.uid)]
                await self.cluster.create(SERVICES, key.namespace, companion)
        except Refused as refused:
            if refused.status not in (400, 403, 422):
                raise
            self._end(family, job, FailedReason.start_failed, f"what belongs to its job: {refused.message}")
        job.accompanied = True

    async def collect(self, key: Key, family: Family, ledger: Ledger, name: str, cancelled: bool = False) -> bool:
        """Judge what an ended attempt left, keep it, and write it into the trial's status."""
        trial = family.trials.get(name)
        if trial is None:
            raise Conflict(f"{name} is gone")
        jobs = jobs_of(family, name)
        attempt = jobs[-1].attempt if jobs else trial.attempts
        reading = ledger.reading(name, jobs)
        status = await self._status(key, name, trial)
        forced = None
        if not jobs:
            await self._make_sure_that_it_is_gone(key, ledger, name, trial)
            forced = (
                FailedReason.job_deleted,
                f"its job was deleted by somebody else, {attempt - len(trial.history)} times",
            )
        else:
            forced = jobs[-1].given_up or _stuck(jobs[-1], reading, ledger.trial(name).deadline_seconds)
        found = await collect(
            self.cluster,
            Attempt(
                request=self._request(key, ledger, name, attempt),
                runner=ledger.runner(name),
                reading=reading,
                owner=owner_of_record(name, trial.uid),
                timeline=status.get("timeline") or (),
                forced=forced,
                cancelled=cancelled,
            ),
        )
        new = statuses.ended(
            status,
            attempt,
            found.verdict,
            job_uid=jobs[-1].uid if jobs else trial.job_uid,
            summary=found.summary,
            record=found.record,
            nodes=found.nodes,
            ended_at=found.ended_at,
        )
        await self._write(key, family, name, trial, new)
        verdict = found.verdict
        TRIALS_ENDED.labels(verdict.phase.value, verdict.reason or "").inc()
        logger.info(
            "%s: %s attempt %d ended %s %s %s", key, name, attempt, verdict.phase, verdict.reason, verdict.message
        )
        if verdict.phase in (TrialPhase.failed, TrialPhase.invalid):
            said = f"attempt {attempt}: {verdict.message}"
            await self.notices.trial(key, name, trial.uid, verdict.reason or verdict.phase.value, said)
        return True

    async def clean(self, key: Key, family: Family, ledger: Ledger, name: str) -> bool:
        """Remove a job whose result is kept; False while one is on its way out already.

        Pods of an attempt that did not end well may still run. Their job is then deleted in the foreground: it stays
        until they are gone, and the next trial does not begin among them.
        """
        trial, acted = family.trials.get(name), False
        for job in jobs_of(family, name):
            collected = {attempt: phase for attempt, phase in trial.history} if trial is not None else {}
            if job.deleting or job.attempt not in collected:
                continue
            succeeded = collected[job.attempt] is TrialPhase.succeeded
            policy = "Background" if succeeded else "Foreground"
            resource = resource_of(ledger.runner(name))
            await self.cluster.delete(resource, key.namespace, job.body["metadata"]["name"], policy, job.uid)
            if succeeded:
                self.sightings.lose_job(_labelled(key, job, name))
            else:
                job.body["metadata"]["deletionTimestamp"] = statuses.timestamp(time.time())
            acted = True
        return acted

    async def progress(
        self, key: Key, family: Family, name: str, phase: TrialPhase, job: JobSeen, waits: str | None
    ) -> None:
        """Say in a trial's status how far its job has come."""
        trial = family.trials[name]
        now = time.time()
        if phase is TrialPhase.running and trial.phase != phase.value and trial.status:
            TRIAL_START.observe(max(0.0, now - statuses.unix(trial.status["startedAt"])))
        status = statuses.progressed(trial.status or {}, phase, job.uid, waits, now)
        try:
            await self._write(key, family, name, trial, status)
        except Conflict as conflict:
            # Only a report: the next turn makes it anew from what is there then.
            logger.debug("%s: %s", name, conflict)

    async def look(self, key: Key, family: Family, ledger: Ledger, name: str) -> Look:
        """A job that takes long: is it still there, is it too late, and what do its pods wait for?"""
        job, runner = jobs_of(family, name)[-1], ledger.runner(name)
        if job.deleting:
            return Look(changed=await self._refresh(key, runner, job))
        if time.monotonic() - job.last_seen > _SILENT_S and await self._refresh(key, runner, job):
            return Look(changed=True)
        reading = runner.read(job.body)
        if reading.state in (Job.ended, Job.queued):
            return Look()
        trial = ledger.trial(name)
        # From when it was let go: what it waited in a queue before is not its own.
        began = job.body["status"].get("startTime") or job.body["metadata"]["creationTimestamp"]
        started = statuses.unix(began)
        overdue = time.time() - started - trial.deadline_seconds
        if reading.state is Job.running and overdue < _GRACE_S:
            return Look()
        request = self._request(key, ledger, name, job.attempt)
        pods = await self.cluster.list(PODS, key.namespace, labelSelector=_selector(request))
        events: list[Object] = []
        if len(pods) < runner.pods(request):
            events = await self._events(key, request.job, job.uid)
        waiting = read_pods.waiting(pods, events)
        rejected = read_pods.rejected(events) if not job.body["status"].get("conditions") else None
        if rejected is not None:
            return self._end(family, job, FailedReason.job_rejected, rejected)
        if reading.state is Job.starting and (hopeless := read_pods.hopeless(pods, events)) is not None:
            return self._end(family, job, *hopeless)
        job.stuck = read_pods.failure(pods, events) if reading.state is Job.starting else None
        if (overdue >= 0 and reading.state is Job.starting) or overdue >= _GRACE_S:
            reason, said = job.stuck or (FailedReason.deadline_exceeded, waiting or "")
            return self._end(family, job, reason, _too_late(trial.deadline_seconds, said))
        return Look(waiting=waiting)

    async def _events(self, key: Key, job: str, uid: str) -> list[Object]:
        """Events on a job; an MPI launcher is a Job of its own, and a quota that hits it is told there."""
        found: list[Object] = []
        for field in (f"involvedObject.uid={uid}", f"involvedObject.name={job}-launcher"):
            found += await self.cluster.list(EVENTS, key.namespace, fieldSelector=field)
        return found

    async def missing_runner(self, wanted: RunnerKind) -> str:
        """Which job kind is not installed, and which are."""
        there = []
        for runner in RUNNERS.values():
            resource = resource_of(runner)
            if resource.group == "batch" or await self.cluster.has(resource):
                there.append(runner.kind)
        return (
            f"this cluster has no {wanted.kind} ({wanted.plural}.{wanted.group}/{wanted.version}); "
            f"install its operator, or use runner: {' or '.join(there)}"
        )

    @staticmethod
    def _end(family: Family, job: JobSeen, reason: FailedReason, message: str) -> Look:
        """From now on this job counts as ended, whatever it says."""
        job.given_up = (reason, message)
        family.touched.add(job.trial)
        return Look(changed=True)

    async def _refresh(self, key: Key, runner: RunnerKind, job: JobSeen) -> bool:
        """Ask for a job that the watch has long not shown; whether it is another than we thought."""
        name = job.body["metadata"]["name"]
        found = await self.cluster.get(resource_of(runner), key.namespace, name)
        job.last_seen = time.monotonic()
        if found is None:
            return self.sightings.lose_job(_labelled(key, job, job.trial)) is not None
        return self.sightings.see_job(found) is not None

    async def _make_sure_that_it_is_gone(self, key: Key, ledger: Ledger, name: str, trial: TrialSeen) -> None:
        """An attempt without job and without result has lost it, or only our watch of jobs is behind that of trials."""
        if trial.attempts == 0 or trial.attempts in {attempt for attempt, _ in trial.history}:
            return
        job = job_name(name, trial.attempts)
        found = await self.cluster.get(resource_of(ledger.runner(name)), key.namespace, job)
        if found is not None and trial.uid in _owners(found):
            self.sightings.see_job(found)
            raise Conflict(f"{job} is there after all")

    async def _make_trial(self, key: Key, family: Family, ledger: Ledger, name: str) -> TrialSeen:
        body: Object = {
            "apiVersion": TRIALS.api_version,
            "kind": TRIALS.kind,
            "metadata": {
                "name": name,
                "namespace": key.namespace,
                "labels": labels(key.name),
                "ownerReferences": [{**self._owner(EXPERIMENTS, key.name, ledger.uid), "controller": True}],
            },
            "spec": ledger.trial(name).wire(),
        }
        made = await self.cluster.create(TRIALS, key.namespace, body)
        if made is None:
            # Somebody made it whom our watch has not shown yet, and may have gone on with it.
            found = await self.cluster.get(TRIALS, key.namespace, name)
            if found is not None:
                self.sightings.see_trial(found)
            raise Conflict(f"{name} is there already")
        self.sightings.see_trial(made)
        self.sightings.wrote(TRIALS.plural, int(made["metadata"]["resourceVersion"]))
        return family.trials[name]

    async def _status(self, key: Key, name: str, trial: TrialSeen) -> Object:
        """A trial's whole status; of one that had ended it is fetched."""
        if trial.status is None:
            found = await self.cluster.get(TRIALS, key.namespace, name)
            if found is None or int(found["metadata"]["resourceVersion"]) != trial.version:
                self._see_or_lose(key, name, trial, found)
                raise Conflict(f"{name} has changed")
            trial.status = found.get("status") or {}
        return trial.status

    def _see_or_lose(self, key: Key, name: str, trial: TrialSeen, found: Object | None) -> None:
        """A trial as it is; that it was deleted, a watch which began anew has never told."""
        if found is not None:
            self.sightings.see_trial(found)
        else:
            gone = {"name": name, "namespace": key.namespace, "uid": trial.uid, "labels": labels(key.name)}
            self.sightings.lose_trial({"metadata": gone})

    async def _write(self, key: Key, family: Family, name: str, trial: TrialSeen, status: Object) -> TrialSeen:
        """Write a trial's status against the version that was seen."""
        body = {
            "apiVersion": TRIALS.api_version,
            "kind": TRIALS.kind,
            "metadata": {"name": name, "uid": trial.uid, "resourceVersion": str(trial.version)},
            "status": status,
        }
        try:
            written = await self.cluster.apply(TRIALS, key.namespace, body, "status")
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            found = await self.cluster.get(TRIALS, key.namespace, name)
            self._see_or_lose(key, name, trial, found)
            raise Conflict(f"{name}: {refused.message}") from refused
        self.sightings.see_trial(written)
        self.sightings.wrote(TRIALS.plural, int(written["metadata"]["resourceVersion"]))
        return family.trials[name]

    async def _fail_start(
        self,
        key: Key,
        family: Family,
        ledger: Ledger,
        name: str,
        trial: TrialSeen,
        attempt: int,
        reason: FailedReason,
        message: str,
    ) -> None:
        """No job could be made: the attempt has failed before it began."""
        found = await collect(
            self.cluster,
            Attempt(
                request=self._request(key, ledger, name, attempt),
                runner=ledger.runner(name),
                reading=None,
                owner=owner_of_record(name, trial.uid),
                forced=(reason, message),
            ),
        )
        status = statuses.ended(
            trial.status or {},
            attempt,
            found.verdict,
            job_uid=None,
            summary=None,
            record=found.record,
            nodes=(),
            ended_at=found.ended_at,
        )
        await self._write(key, family, name, trial, status)
        TRIALS_ENDED.labels(found.verdict.phase.value, reason.value).inc()
        await self.notices.trial(key, name, trial.uid, reason.value, message)

    def _request(self, key: Key, ledger: Ledger, name: str, attempt: int) -> Request:
        trial = ledger.trial(name)
        return Request(
            experiment=key.name,
            namespace=key.namespace,
            spec=ledger.spec,
            trial=trial,
            trial_object=name,
            attempt=attempt,
            images=self.settings.images,
            record_bytes=self.settings.record_bytes,
            nodes=tuple(ledger.nodes.get(trial.point.series, ())),
            metrics_port=self.settings.worker_metrics_port,
            linger_seconds=self.settings.linger_seconds,
        )

    @staticmethod
    def _owner(resource: Resource, name: str, uid: str) -> Object:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": name,
            "uid": uid,
            "blockOwnerDeletion": False,
        }


def _stuck(job: JobSeen, reading: Reading | None, deadline: int) -> tuple[FailedReason, str] | None:
    """A job that ended by its deadline while it was still Starting: what its pods suffered from, seen before."""
    late = reading is not None and reading.reason is FailedReason.deadline_exceeded
    return (job.stuck[0], _too_late(deadline, job.stuck[1])) if late and job.stuck is not None else None


def _too_late(deadline: int, said: str) -> str:
    return f"did not end within deadlineSeconds, {deadline}" + (f": {said}" if said else "")


def _owners(body: Object) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()}


def _labelled(key: Key, job: JobSeen, trial: str) -> Object:
    """A remembered job with the labels by which it is found."""
    experiment = key.name
    return {"metadata": {**job.body["metadata"], "labels": labels(experiment, trial, job.attempt)}}


def _selector(request: Request) -> str:
    return ",".join(f"{name}={value}" for name, value in request.labels.items() if name.startswith("scalebench.dev/"))
