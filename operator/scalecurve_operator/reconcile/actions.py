"""Carrying out what was decided, one attempt at a time. Each step may be cut by a kill, and repeated, without harm."""

from __future__ import annotations

import logging
import time

from scalecurve_api.spec.object_names import job_name
from scalecurve_api.spec.trial import FailedReason, TrialPhase
from scalecurve_kube.client import SERVICES, TRIALS, Cluster, Refused
from scalecurve_operator.cache.object_cache import Family, JobSeen, Key, Sightings, TrialSeen
from scalecurve_operator.cache.trial_index import KINDS, Ledger, jobs_of
from scalecurve_operator.metrics import TRIAL_START, TRIALS_ENDED
from scalecurve_operator.reconcile.collect import Attempt, collect, owner_of_record
from scalecurve_operator.reconcile.job_objects import (
    labelled,
    owner_reference,
    owners,
    request_of,
    resource_of,
)
from scalecurve_operator.reconcile.job_probe import end, stuck
from scalecurve_operator.reconcile.trial_objects import Conflict, InTheWay, TrialObjects
from scalecurve_operator.runners import RequestError
from scalecurve_operator.settings import Settings
from scalecurve_operator.status import render as statuses
from scalecurve_operator.status.events import Notices

logger = logging.getLogger(__name__)


class Acting:
    """The steps of an attempt against one cluster."""

    def __init__(self, cluster: Cluster, settings: Settings, sightings: Sightings, notices: Notices) -> None:
        self.cluster, self.settings, self.sightings, self.notices = cluster, settings, sightings, notices
        self.trials = TrialObjects(cluster, sightings)

    async def start(self, key: Key, family: Family, ledger: Ledger, name: str, attempt: int) -> bool:
        """Make the trial if it is not there, claim the attempt, create its job."""
        trial = family.trials.get(name) or await self.trials.make(key, family, ledger, name)
        if trial.owner != ledger.uid:
            await self.trials.look_again(key, name, trial)
            raise InTheWay(f"ScalingTrial {name} is there, and not of this experiment")
        if any(past >= attempt for past, _ in trial.history):
            raise Conflict(f"{name} has its result of attempt {attempt}")
        if attempt > trial.attempts:
            await self._make_sure_that_it_is_gone(key, ledger, name, trial)
        now = time.time()
        status = statuses.claimed(await self.trials.status(key, name, trial), attempt, job_name(name, attempt), now)
        trial = await self.trials.write(key, family, name, trial, status)
        request = request_of(self.settings, key, ledger, name, attempt)
        runner = ledger.runner(name)
        try:
            job = runner.render(request)
        except RequestError as error:
            await self._fail_start(key, family, ledger, name, trial, attempt, FailedReason.start_failed, str(error))
            return True
        job["metadata"]["ownerReferences"] = [owner_reference(TRIALS, name, trial.uid)]
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
            if created is None or trial.uid not in owners(created):
                raise InTheWay(f"{runner.kind} {request.job} is there, and not of this trial")
        logger.info("%s: started %s attempt %d as %s %s", key, name, attempt, runner.kind, request.job)
        self.sightings.see_job(created)
        if (seen := family.jobs.get(request.job)) is None:
            raise Conflict(f"{request.job} was deleted as soon as it was made")
        await self.accompany(key, family, ledger, seen)
        return True

    async def accompany(self, key: Key, family: Family, ledger: Ledger, job: JobSeen) -> None:
        """Make what must stand beside a job, once for every job and process: a kill may have come in between."""
        runner, request = ledger.runner(job.trial), request_of(self.settings, key, ledger, job.trial, job.attempt)
        try:
            for companion in runner.companions(request, job.body):
                companion["metadata"]["ownerReferences"] = [owner_reference(resource_of(runner), request.job, job.uid)]
                await self.cluster.create(SERVICES, key.namespace, companion)
        except Refused as refused:
            if refused.status not in (400, 403, 422):
                raise
            end(family, job, FailedReason.start_failed, f"what belongs to its job: {refused.message}")
        job.accompanied = True

    async def remove(self, key: Key, family: Family) -> None:
        """Delete every job of an experiment that is not understood: nobody could collect what it leaves."""
        for job in [job for job in family.jobs.values() if not job.deleting]:
            resource = resource_of(KINDS[job.body["kind"]])
            await self.cluster.delete(resource, key.namespace, job.body["metadata"]["name"], "Foreground", job.uid)

    async def collect(self, key: Key, family: Family, ledger: Ledger, name: str, cancelled: bool = False) -> bool:
        """Judge what an ended attempt left, keep it, and write it into the trial's status."""
        trial = family.trials.get(name)
        if trial is None:
            raise Conflict(f"{name} has gone, and its job has not yet")
        jobs = jobs_of(family, name)
        attempt = jobs[-1].attempt if jobs else max(1, trial.attempts)
        reading = ledger.reading(name, jobs)
        status = await self.trials.status(key, name, trial)
        if trial.attempts == 0:
            # Its object was made, and the first attempt not claimed: that ends before it begins.
            status = statuses.claimed(status, attempt, job_name(name, attempt), time.time())
        forced = None
        if not jobs:
            await self._make_sure_that_it_is_gone(key, ledger, name, trial)
            forced = (
                FailedReason.job_deleted,
                f"its job was deleted by somebody else, {attempt - len(trial.history)} times",
            )
        else:
            forced = jobs[-1].given_up or stuck(jobs[-1], reading, ledger.trial(name).deadline_seconds)
        found = await collect(
            self.cluster,
            Attempt(
                request=request_of(self.settings, key, ledger, name, attempt),
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
        await self.trials.write(key, family, name, trial, new)
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
                self.sightings.forget_job(labelled(key, job, name))
            else:
                job.body["metadata"]["deletionTimestamp"] = statuses.timestamp(time.time())
            acted = True
        return acted

    async def progress(
        self, key: Key, family: Family, name: str, phase: TrialPhase, job: JobSeen, waits: str | None
    ) -> None:
        """Say in a trial's status how far its job has come."""
        trial = family.trials.get(name)
        if trial is None:
            return
        now = time.time()
        if phase is TrialPhase.running and trial.phase != phase.value and trial.status:
            TRIAL_START.observe(max(0.0, now - statuses.unix(trial.status["startedAt"])))
        status = statuses.progressed(trial.status or {}, phase, job.uid, waits, now)
        try:
            await self.trials.write(key, family, name, trial, status)
        except Conflict as conflict:
            # Only a report: the next turn makes it anew from what is there then.
            logger.debug("%s: %s", name, conflict)

    async def _make_sure_that_it_is_gone(self, key: Key, ledger: Ledger, name: str, trial: TrialSeen) -> None:
        """An attempt without job and without result has lost it, or only our watch of jobs is behind that of trials."""
        if trial.attempts == 0 or trial.attempts in {attempt for attempt, _ in trial.history}:
            return
        job = job_name(name, trial.attempts)
        found = await self.cluster.get(resource_of(ledger.runner(name)), key.namespace, job)
        if found is not None and trial.uid in owners(found):
            self.sightings.see_job(found)
            raise Conflict(f"{job} is there after all")

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
                request=request_of(self.settings, key, ledger, name, attempt),
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
        await self.trials.write(key, family, name, trial, status)
        TRIALS_ENDED.labels(found.verdict.phase.value, reason.value).inc()
        await self.notices.trial(key, name, trial.uid, reason.value, message)
