"""Carrying out what was decided for one trial. A kill may interrupt every step, and every step may be repeated."""

import logging
import time
from collections.abc import Sequence

from scalecurve_api.crds.status import one_line
from scalecurve_api.spec.object_names import job_name
from scalecurve_api.spec.trial import FailedReason, TrialPhase
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ClusterError, Refused
from scalecurve_kube.resources import SERVICES, TRIALS, Object, owner_uids, resource_of, timestamp, unix_time
from scalecurve_operator.cache.cached_objects import CachedJob, CachedTrial, Cause, ExperimentObjects, Key
from scalecurve_operator.metrics import TRIAL_START, TRIALS_ENDED
from scalecurve_operator.reconcile import trial_objects
from scalecurve_operator.reconcile.collect import UncollectedAttempt, collect_attempt
from scalecurve_operator.reconcile.job_probe import deadline_cause
from scalecurve_operator.reconcile.judge_process import JudgeUnavailable
from scalecurve_operator.reconcile.reconciliation import Reconciliation
from scalecurve_operator.reconcile.trial_objects import Conflict, NameTaken
from scalecurve_operator.runners import RUNNERS, JobRequestError, JobStatus
from scalecurve_operator.status import events, render

_PERMANENT = (400, 403, 422)
"""Denied, invalid, over a quota: creating the same object again would not help this attempt."""
_NEVER_TAKEN = (400, 413, 422)
"""Malformed, too large, invalid: what a record says makes the API server refuse a write."""
COLLECTIONS = 4
"""Times that collecting an attempt may fail for a reason that is not the API server's"""
UNAVAILABLE = 20
"""Times that there may be no process to judge an attempt in: a quarter of an hour of waiting, and its own tries"""
_FIRST_BACKOFF_S = 0.25
_MOST_BACKOFF_DOUBLINGS = 8
_MAX_PROBLEM_BYTES = 300

logger = logging.getLogger(__name__)


async def start(rec: Reconciliation, name: str, attempt: int) -> None:
    """Create the trial if it does not exist, claim the attempt, create its job.

    The attempt's number is claimed in the trial's status, against the cached version, before its job is created:
    an operator that acts on an older version is refused, so no attempt runs twice.
    """
    trial = rec.objects.trials.get(name) or await trial_objects.create(rec, name)
    if trial.owner != rec.index.uid:
        await trial_objects.refetch(rec, name, trial)
        raise NameTaken(f"ScalingTrial {name} exists and belongs to another owner")
    if any(past >= attempt for past, _ in trial.history):
        raise Conflict(f"attempt {attempt} of {name} already has a result")
    if attempt > trial.attempts:
        await _require_no_job(rec, name, trial)
    status = await trial_objects.full_status(rec, name, trial)
    claimed = render.claimed(status, attempt, job_name(name, attempt), time.time())
    trial = await trial_objects.write_status(rec, name, trial, claimed)
    try:
        job = rec.runner(name).render(rec.job_request(name, attempt))
    except JobRequestError as error:
        await _fail_to_start(rec, name, trial, attempt, (FailedReason.start_failed, str(error)))
        return
    job["metadata"]["ownerReferences"] = [TRIALS.owner(name, trial.uid, blockOwnerDeletion=False)]
    try:
        created = await _create_job(rec, name, trial, job)
    except Refused as refused:
        if refused.status not in _PERMANENT:
            raise
        await _fail_to_start(rec, name, trial, attempt, (FailedReason.job_rejected, refused.message))
        return
    created_name = created["metadata"]["name"]
    logger.info("%s: started attempt %d of %s as %s %s", rec.key, attempt, name, job["kind"], created_name)
    rec.cache.upsert_job(created)
    if (cached := rec.objects.jobs.get(created_name)) is None:
        raise Conflict(f"{created_name} was deleted as soon as it was created")
    await create_companions(rec, cached)


async def _create_job(rec: Reconciliation, name: str, trial: CachedTrial, job: Object) -> Object:
    created = await rec.cluster.create(rec.resource(name), rec.key.namespace, job)
    if created is None:
        created = await rec.fetch_job(name, job["metadata"]["name"])
        if created is None or trial.uid not in owner_uids(created):
            raise NameTaken(f"{job['kind']} {job['metadata']['name']} exists and belongs to another owner")
    return created


async def create_companions(rec: Reconciliation, job: CachedJob) -> None:
    """Create what goes with a job, once per job and process: a kill may have come in between."""
    runner, request = rec.runner(job.trial), rec.job_request(job.trial, job.attempt)
    owner = rec.resource(job.trial).owner(request.job, job.uid, blockOwnerDeletion=False)
    try:
        for companion in runner.companions(request, job.body):
            companion["metadata"]["ownerReferences"] = [owner]
            await rec.cluster.create(SERVICES, rec.key.namespace, companion)
    except Refused as refused:
        if refused.status not in _PERMANENT:
            raise
        job.forced_end = FailedReason.start_failed, f"cannot create its Service: {refused.message}"
        rec.objects.changed.add(job.trial)
    job.has_companions = True


async def delete_jobs(cluster: Cluster, key: Key, objects: ExperimentObjects) -> None:
    """Delete every job of an experiment whose spec cannot be read: its results could not be collected."""
    for job in [job for job in objects.jobs.values() if not job.deleting]:
        resource = resource_of(RUNNERS[job.body["kind"]].runner)
        await cluster.delete(resource, key.namespace, job.name, "Foreground", job.uid)


class CollectionFailed(Exception):
    """What an attempt left could not be collected; try again ``after`` seconds."""

    def __init__(self, problem: str, after: float) -> None:
        super().__init__(problem)
        self.after = after


async def collect(rec: Reconciliation, name: str, *, cancelled: bool = False) -> None:
    """Judge what an ended attempt left, keep it, and write the result into the trial's status.

    Pods may leave anything. When this has failed ``COLLECTIONS`` times, and not because of the API server, the attempt
    ends without what they left: an attempt that can never be collected would hold its pool's place for ever. That a
    machine is too busy to judge it says nothing of the record, and is tried ``UNAVAILABLE`` times.

    Raises:
        CollectionFailed: for a reason that is not the API server's.
    """
    try:
        await _collect_and_finish(rec, name, cancelled, rec.unreadable.get(name))
    except (Conflict, ClusterError) as error:
        if not isinstance(error, Refused) or error.status not in _NEVER_TAKEN:
            raise
        raise _collection_failed(rec, name, error.message, error) from error
    except JudgeUnavailable as error:
        problem = f"the operator has no process to judge it in: {error}"
        raise _collection_failed(rec, name, problem, error) from error
    except Exception as error:
        raise _collection_failed(rec, name, f"{type(error).__name__}: {error}", error) from error
    rec.failed_collections.pop(name, None)
    rec.unjudged.pop(name, None)
    rec.unreadable.pop(name, None)


def _collection_failed(rec: Reconciliation, name: str, problem: str, error: Exception) -> CollectionFailed:
    unavailable = isinstance(error, JudgeUnavailable)
    counts, most = (rec.unjudged, UNAVAILABLE) if unavailable else (rec.failed_collections, COLLECTIONS)
    count = counts[name] = counts.get(name, 0) + 1
    problem = one_line(problem, _MAX_PROBLEM_BYTES)
    logger.warning(
        "%s: collecting %s failed %d times: %s",
        rec.key,
        name,
        count,
        problem,
        exc_info=error if count >= most else None,
    )
    if count >= most:
        rec.unreadable[name] = f"the record could not be read, {count} times: {problem}"
    return CollectionFailed(problem, _FIRST_BACKOFF_S * 2 ** min(count - 1, _MOST_BACKOFF_DOUBLINGS))


async def _collect_and_finish(rec: Reconciliation, name: str, cancelled: bool, unreadable: str | None) -> None:
    trial = rec.objects.trials.get(name)
    if trial is None:
        raise Conflict(f"{name} was deleted, and its job is still there")
    jobs = rec.objects.jobs_of(name)
    attempt = jobs[-1].attempt if jobs else max(1, trial.attempts)
    job_status = rec.index.job_status(name, jobs)
    status = await trial_objects.full_status(rec, name, trial)
    if trial.attempts == 0:
        # The object was created and the first attempt never claimed: it ends before it begins.
        status = render.claimed(status, attempt, job_name(name, attempt), time.time())
    if jobs:
        cause = jobs[-1].forced_end or deadline_cause(jobs[-1], job_status, rec.trial_spec(name).deadline_seconds)
    else:
        await _require_no_job(rec, name, trial)
        deletions = attempt - len(trial.history)
        cause = FailedReason.job_deleted, f"something else deleted its job, {deletions} times"
    result = await _collect(
        rec,
        name,
        trial,
        attempt,
        cause,
        job_status,
        timeline=status.get("timeline") or (),
        cancelled=cancelled,
        unreadable=unreadable,
    )
    job_uid = jobs[-1].uid if jobs else trial.job_uid
    await _finish(rec, name, trial, attempt, result, render.ended(status, attempt, result, job_uid))


async def clean(rec: Reconciliation, name: str) -> bool:
    """Delete a job whose result was collected; False if it is being deleted already.

    Pods of an attempt that did not succeed may still run. Their job is deleted in the foreground: it stays until they
    are gone, so the next trial does not start among them.
    """
    trial, acted = rec.objects.trials.get(name), False
    collected = trial.collected if trial is not None else {}
    for job in rec.objects.jobs_of(name):
        if job.deleting or job.attempt not in collected:
            continue
        succeeded = collected[job.attempt] is TrialPhase.succeeded
        policy = "Background" if succeeded else "Foreground"
        await rec.cluster.delete(rec.resource(name), rec.key.namespace, job.name, policy, job.uid)
        if succeeded:
            rec.cache.forget_job(job.body)
        else:
            job.body["metadata"]["deletionTimestamp"] = timestamp(time.time())
        acted = True
    return acted


async def report_progress(rec: Reconciliation, name: str, phase: TrialPhase, job: CachedJob) -> None:
    """Write into a trial's status how far its job has come."""
    trial = rec.objects.trials.get(name)
    if trial is None:
        return
    now, status = time.time(), trial.status or {}
    if phase is TrialPhase.running and trial.phase != phase.value and status:
        TRIAL_START.observe(max(0.0, now - unix_time(status["startedAt"])))
    progressed = render.progressed(status, phase, job.uid, rec.waiting.get(name), now)
    try:
        await trial_objects.write_status(rec, name, trial, progressed)
    except Conflict as conflict:
        # Only a report: the next reconcile writes it from what is there then.
        logger.debug("%s: %s", name, conflict)


async def _require_no_job(rec: Reconciliation, name: str, trial: CachedTrial) -> None:
    """An attempt without job or result has lost its job, unless only our watch of jobs is behind that of trials."""
    if trial.attempts == 0 or trial.attempts in trial.collected:
        return
    job = await rec.fetch_job(name, job_name(name, trial.attempts))
    if job is not None and trial.uid in owner_uids(job):
        rec.cache.upsert_job(job)
        raise Conflict(f"{job['metadata']['name']} exists after all")


async def _fail_to_start(rec: Reconciliation, name: str, trial: CachedTrial, attempt: int, cause: Cause) -> None:
    """No job could be created: the attempt has failed before it began."""
    result = await _collect(rec, name, trial, attempt, cause, None)
    await _finish(rec, name, trial, attempt, result, render.ended(trial.status or {}, attempt, result, None))


async def _collect(
    rec: Reconciliation,
    name: str,
    trial: CachedTrial,
    attempt: int,
    cause: Cause | None,
    job_status: JobStatus | None,
    *,
    timeline: Sequence[Object] = (),
    cancelled: bool = False,
    unreadable: str | None = None,
) -> render.AttemptResult:
    job = next((job for job in rec.objects.jobs_of(name) if job.attempt == attempt), None)
    ended = UncollectedAttempt(
        request=rec.job_request(name, attempt),
        runner=rec.runner(name),
        job_status=job_status,
        owner=TRIALS.owner(name, trial.uid),
        timeline=timeline,
        cause=cause,
        cancelled=cancelled,
        unreadable=unreadable,
        records_url=rec.settings.records_url,
        job_uid=job.uid if job is not None else trial.job_uid,
    )
    return await collect_attempt(rec.cluster, rec.intake, ended)


async def _finish(
    rec: Reconciliation, name: str, trial: CachedTrial, attempt: int, result: render.AttemptResult, status: Object
) -> None:
    await trial_objects.write_status(rec, name, trial, status)
    phase, reason, message = result.verdict.phase, result.verdict.reason, result.verdict.message
    TRIALS_ENDED.labels(phase.value, reason or "").inc()
    logger.info("%s: attempt %d of %s ended: %s %s %s", rec.key, attempt, name, phase, reason, message)
    if phase in (TrialPhase.failed, TrialPhase.invalid):
        text = f"attempt {attempt}: {message}"
        await events.trial_failed(rec.cluster, rec.key, name, trial.uid, reason or phase.value, text)
