"""Carrying out what was decided for one trial. A kill may interrupt every step, and every step may be repeated."""

import logging
import time
from dataclasses import replace

from scalecurve_api.crds.status import one_line
from scalecurve_api.spec.object_names import job_name
from scalecurve_api.spec.trial import FailedReason, TrialPhase
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError, ClusterError
from scalecurve_kube.resources import TRIALS, Object, owner_uids, resource_of, timestamp
from scalecurve_operator.cache.cached_objects import Cause, ExperimentObjects, Key
from scalecurve_operator.metrics import TRIALS_ENDED
from scalecurve_operator.reconcile.collect import UncollectedAttempt, collect_attempt
from scalecurve_operator.reconcile.job_probe import deadline_cause
from scalecurve_operator.reconcile.judge_process import JudgeUnavailableError
from scalecurve_operator.reconcile.trial import PERMANENT, ConflictError, NameTakenError, TrialReconciliation
from scalecurve_operator.runners import RUNNERS, JobRequestError
from scalecurve_operator.status import events, render

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


async def start(trial: TrialReconciliation, attempt: int) -> None:
    """Create the trial if it does not exist, claim the attempt, create its job.

    The attempt's number is claimed in the trial's status, against the version that was seen, before its job is created:
    an operator that acts on an older version is refused, so no attempt runs twice.
    """
    rec, name = trial.rec, trial.name
    if trial.seen is None:
        await trial.create()
    if trial.object.owner != rec.index.uid:
        await trial.refetch()
        raise NameTakenError(f"ScalingTrial {name} exists and belongs to another owner")
    if any(past >= attempt for past, _ in trial.object.history):
        raise ConflictError(f"attempt {attempt} of {name} already has a result")
    if attempt > trial.object.attempts:
        await trial.require_no_job()
    await trial.write_status(render.claimed(await trial.full_status(), attempt, job_name(name, attempt), time.time()))
    try:
        job = trial.runner.render(trial.request(attempt))
    except JobRequestError as error:
        await _fail_to_start(trial, attempt, (FailedReason.start_failed, str(error)))
        return
    job["metadata"]["ownerReferences"] = [TRIALS.owner(name, trial.object.uid, blockOwnerDeletion=False)]
    try:
        created = await _create_job(trial, job)
    except ApiStatusError as refused:
        if refused.status not in PERMANENT:
            raise
        await _fail_to_start(trial, attempt, (FailedReason.job_rejected, refused.message))
        return
    created_name = created["metadata"]["name"]
    logger.info("%s: started attempt %d of %s as %s %s", rec.key, attempt, name, job["kind"], created_name)
    rec.cache.upsert_job(created)
    if (cached := rec.objects.jobs.get(created_name)) is None:
        raise ConflictError(f"{created_name} was deleted as soon as it was created")
    await trial.create_companions(cached)


async def _create_job(trial: TrialReconciliation, job: Object) -> Object:
    created = await trial.rec.cluster.create(trial.resource, trial.rec.key.namespace, job)
    if created is None:
        created = await trial.fetch_job(job["metadata"]["name"])
        if created is None or trial.object.uid not in owner_uids(created):
            raise NameTakenError(f"{job['kind']} {job['metadata']['name']} exists and belongs to another owner")
    return created


async def delete_jobs(cluster: Cluster, key: Key, objects: ExperimentObjects) -> None:
    """Delete every job of an experiment whose spec cannot be read: its results could not be collected."""
    for job in [job for job in objects.jobs.values() if not job.deleting]:
        resource = resource_of(RUNNERS[job.body["kind"]].runner)
        await cluster.delete(resource, key.namespace, job.name, "Foreground", job.uid)


class CollectionError(Exception):
    """What an attempt left could not be collected; try again ``after`` seconds."""

    def __init__(self, problem: str, after: float) -> None:
        super().__init__(problem)
        self.after = after


async def collect(trial: TrialReconciliation, *, cancelled: bool = False) -> None:
    """Judge what an ended attempt left, keep it, and write the result into the trial's status.

    Pods may leave anything. When this has failed ``COLLECTIONS`` times, and not because of the API server, the attempt
    ends without what they left: an attempt that can never be collected would hold its pool's place for ever. That a
    machine is too busy to judge it says nothing of the record, and is tried ``UNAVAILABLE`` times.

    Raises:
        CollectionError: for a reason that is not the API server's.
    """
    try:
        await _collect_and_finish(trial, cancelled)
    except (ConflictError, ClusterError) as error:
        if not isinstance(error, ApiStatusError) or error.status not in _NEVER_TAKEN:
            raise
        raise _collection_failed(trial, error.message, error) from error
    except JudgeUnavailableError as error:
        problem = f"the operator has no process to judge it in: {error}"
        raise _collection_failed(trial, problem, error) from error
    except Exception as error:
        raise _collection_failed(trial, f"{type(error).__name__}: {error}", error) from error
    for failures in (trial.rec.failed_collections, trial.rec.unjudged, trial.rec.unreadable):
        failures.pop(trial.name, None)


def _collection_failed(trial: TrialReconciliation, problem: str, error: Exception) -> CollectionError:
    rec, name = trial.rec, trial.name
    unavailable = isinstance(error, JudgeUnavailableError)
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
    return CollectionError(problem, _FIRST_BACKOFF_S * 2 ** min(count - 1, _MOST_BACKOFF_DOUBLINGS))


async def _collect_and_finish(trial: TrialReconciliation, cancelled: bool) -> None:
    name, jobs, seen = trial.name, trial.jobs, trial.object
    attempt = jobs[-1].attempt if jobs else max(1, seen.attempts)
    job_status = trial.status_of(jobs[-1]) if jobs else None
    status = await trial.full_status()
    if seen.attempts == 0:
        # The object was created and the first attempt never claimed: it ends before it begins.
        status = render.claimed(status, attempt, job_name(name, attempt), time.time())
    if jobs:
        cause = jobs[-1].forced_end or deadline_cause(jobs[-1], job_status, trial.spec.deadline_seconds)
    else:
        await trial.require_no_job()
        deletions = attempt - len(seen.history)
        cause = FailedReason.job_deleted, f"something else deleted its job, {deletions} times"
    ended = replace(
        _describe_attempt(trial, attempt, cause),
        job_status=job_status,
        timeline=status.get("timeline") or (),
        cancelled=cancelled,
        unreadable=trial.rec.unreadable.get(name),
    )
    result = await collect_attempt(trial.rec.cluster, trial.rec.payload_budget, ended)
    job_uid = jobs[-1].uid if jobs else seen.job_uid
    await _finish(trial, attempt, result, render.ended(status, attempt, result, job_uid))


async def clean(trial: TrialReconciliation) -> bool:
    """Delete a job whose result was collected; False if it is being deleted already.

    Pods of an attempt that did not succeed may still run. Their job is deleted in the foreground: it stays until they
    are gone, so the next trial does not start among them.
    """
    rec, acted = trial.rec, False
    collected = trial.seen.collected if trial.seen is not None else {}
    for job in trial.jobs:
        if job.deleting or job.attempt not in collected:
            continue
        succeeded = collected[job.attempt] is TrialPhase.succeeded
        policy = "Background" if succeeded else "Foreground"
        await rec.cluster.delete(trial.resource, rec.key.namespace, job.name, policy, job.uid)
        if succeeded:
            rec.cache.forget_job(job.body)
        else:
            job.body["metadata"]["deletionTimestamp"] = timestamp(time.time())
        acted = True
    return acted


async def _fail_to_start(trial: TrialReconciliation, attempt: int, cause: Cause) -> None:
    """No job could be created: the attempt has failed before it began."""
    result = await collect_attempt(
        trial.rec.cluster, trial.rec.payload_budget, _describe_attempt(trial, attempt, cause)
    )
    await _finish(trial, attempt, result, render.ended(trial.object.status or {}, attempt, result, None))


def _describe_attempt(trial: TrialReconciliation, attempt: int, cause: Cause | None) -> UncollectedAttempt:
    job = next((job for job in trial.jobs if job.attempt == attempt), None)
    return UncollectedAttempt(
        request=trial.request(attempt),
        runner=trial.runner,
        job_status=None,
        owner=TRIALS.owner(trial.name, trial.object.uid),
        cause=cause,
        records_url=trial.rec.settings.records_url,
        job_uid=job.uid if job is not None else trial.object.job_uid,
    )


async def _finish(trial: TrialReconciliation, attempt: int, result: render.AttemptResult, status: Object) -> None:
    rec, name = trial.rec, trial.name
    await trial.write_status(status)
    phase, reason, message = result.verdict.phase, result.verdict.reason, result.verdict.message
    TRIALS_ENDED.labels(phase.value, reason or "").inc()
    logger.info("%s: attempt %d of %s ended: %s %s %s", rec.key, attempt, name, phase, reason, message)
    if phase in (TrialPhase.failed, TrialPhase.invalid):
        text = f"attempt {attempt}: {message}"
        await events.trial_failed(rec.cluster, rec.key, name, trial.object.uid, reason or phase.value, text)
