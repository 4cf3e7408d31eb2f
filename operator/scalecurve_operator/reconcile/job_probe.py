"""A closer look at jobs that take long: at themselves, their pods and their events."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.trial import FailedReason
from scalecurve_kube.client import EVENTS, PODS, Cluster, Object
from scalecurve_operator.cache.object_cache import Family, JobSeen, Key, Sightings
from scalecurve_operator.cache.trial_index import Ledger, jobs_of
from scalecurve_operator.reconcile import pod_diagnosis as read_pods
from scalecurve_operator.reconcile.job_objects import labelled, request_of, resource_of, selector
from scalecurve_operator.runners import Reading, RunnerKind
from scalecurve_operator.runners.pod_status import current
from scalecurve_operator.settings import Settings
from scalecurve_operator.status import render as statuses

HANGS = "that is too short for it, or some rank waits for another for ever"
_SILENT_S = 60.0
"""A job that no event has shown for so long is asked for."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a closer look at a slow job found."""

    waiting: str | None = None
    changed: bool = False


class Looking:
    """At jobs of one cluster."""

    def __init__(self, cluster: Cluster, settings: Settings, sightings: Sightings) -> None:
        self.cluster, self.settings, self.sightings = cluster, settings, sightings

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
        late = self.time_left(ledger, name, job) <= 0
        if reading.state is Job.running and not late:
            return Look()
        if late and await self._refresh(key, runner, job):
            return Look(changed=True)  # it may have ended just then
        request = request_of(self.settings, key, ledger, name, job.attempt)
        pods = current(await self.cluster.list(PODS, key.namespace, labelSelector=selector(request)))
        events: list[Object] = []
        if len(pods) < runner.pods(request):
            events = await self._events(key, request.job, job.uid)
        waiting = read_pods.waiting(pods, events)
        rejected = read_pods.rejected(events) if not job.body["status"].get("conditions") else None
        if rejected is not None:
            return end(family, job, FailedReason.job_rejected, rejected)
        if reading.state is Job.starting and (hopeless := read_pods.hopeless(pods, events)) is not None:
            return end(family, job, *hopeless)
        job.stuck = read_pods.failure(pods, events) if reading.state is Job.starting else None
        if late:
            reason, said = job.stuck or (FailedReason.deadline_exceeded, waiting or HANGS)
            return end(family, job, reason, too_late(ledger.trial(name).deadline_seconds, said))
        return Look(waiting=waiting)

    def time_left(self, ledger: Ledger, name: str, job: JobSeen) -> float:
        """Seconds until a job is to be ended for being too late; infinite where nobody is to end it.

        It is ended by us: what its own deadline ends (``Request.backstop_seconds``) leaves no last lines.
        """
        ends = job.deleting or job.given_up is not None
        if ends or ledger.runner(name).read(job.body).state in (Job.ended, Job.queued):
            return math.inf
        # From when it was let go: what it waited in a queue before is not its own.
        began = job.body["status"].get("startTime") or job.body["metadata"]["creationTimestamp"]
        return statuses.unix(began) + ledger.trial(name).deadline_seconds - time.time()

    async def _events(self, key: Key, job: str, uid: str) -> list[Object]:
        """Events on a job; an MPI launcher is a Job of its own, and a quota that hits it is told there."""
        found: list[Object] = []
        for field in (f"involvedObject.uid={uid}", f"involvedObject.name={job}-launcher"):
            found += await self.cluster.list(EVENTS, key.namespace, fieldSelector=field)
        return found

    async def _refresh(self, key: Key, runner: RunnerKind, job: JobSeen) -> bool:
        """Ask for a job that the watch has long not shown; whether it is another than we thought."""
        name = job.body["metadata"]["name"]
        found = await self.cluster.get(resource_of(runner), key.namespace, name)
        job.last_seen = time.monotonic()
        if found is None:
            return self.sightings.lose_job(labelled(key, job, job.trial)) is not None
        return self.sightings.see_job(found) is not None


def end(family: Family, job: JobSeen, reason: FailedReason, message: str) -> Look:
    """From now on this job counts as ended, whatever it says."""
    job.given_up = (reason, message)
    family.touched.add(job.trial)
    return Look(changed=True)


def stuck(job: JobSeen, reading: Reading | None, deadline: int) -> tuple[FailedReason, str] | None:
    """A job that ended by its deadline while it was still Starting: what its pods suffered from, seen before."""
    late = reading is not None and reading.reason is FailedReason.deadline_exceeded
    return (job.stuck[0], too_late(deadline, job.stuck[1])) if late and job.stuck is not None else None


def too_late(deadline: int, said: str) -> str:
    """What is said of a job past its deadline."""
    return f"did not end within deadlineSeconds, {deadline}" + (f": {said}" if said else "")
