"""Probing a job that takes long: is it still there, is it past its deadline, what do its pods or its queue wait for?

Kueue's Workload says why a job is queued: it is listed while the job is, and never watched. What can never be admitted,
as things are, ends the attempt: more than the queue's whole capacity, a queue that does not exist, a Workload that
somebody or ``waitForPodsReady`` has deactivated.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import FailedReason
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import EVENTS, PODS, WORKLOADS, Object, unix_time
from scalecurve_operator.cache.cached_objects import CachedJob, Cause
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.reconcile.reconciliation import Reconciliation
from scalecurve_operator.reconcile.trial import TrialReconciliation
from scalecurve_operator.runners import JobStatus
from scalecurve_operator.runners.pod_status import newest_pods, pods_of_job
from scalecurve_operator.runners.runner_kind import conditions_of
from scalecurve_operator.status import events

HANG = "the deadline is too short, or some rank waits for another forever"
_SILENCE_S = 60.0
"""A job that no event has shown for so long is fetched."""
_JOB_UID = "kueue.x-k8s.io/job-uid"
"""Kueue's label of a Workload."""
_NO_SUCH_THING = 404
_NOT_ALLOWED = 403
_NEVER = ("maximum capacity", "doesn't exist")
"""Kueue's own words (0.19) in the message of QuotaReserved: a request above nominal quota and what may be borrowed,
and a LocalQueue that is not there."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """``changed`` calls for another reconcile."""

    waiting: str | None = None
    changed: bool = False


async def probe(trial: TrialReconciliation, job: CachedJob, status: JobStatus) -> ProbeResult:
    """Look at a trial's newest job, its pods and its Events."""
    silent = job.deleting or time.monotonic() - job.last_seen > _SILENCE_S
    if silent and await _refetch(trial, job):
        return ProbeResult(changed=True)
    if job.deleting or status.state is Job.ended:
        return ProbeResult()
    if status.state is Job.queued:
        waiting, cause = await _look(trial.rec, job, status)
        return _end_trial(trial, job, cause) if cause is not None else ProbeResult(waiting)
    late = time_left(trial, job, status) <= 0
    if status.state is Job.running and not late:
        return ProbeResult()
    if late and await _refetch(trial, job):
        return ProbeResult(changed=True)  # it may have ended just then
    rec, runner, request = trial.rec, trial.runner, trial.request(job.attempt)
    pods = await rec.cluster.list(PODS, rec.key.namespace, labelSelector=request.pod_selector)
    made = pods_of_job(pods, request.job, job.uid, newest=False)
    pods = newest_pods(made)
    seen = await _events(trial, job) if len(pods) < runner.pods(request) else []
    waiting = pod_diagnosis.waiting(pods, seen)
    starting = status.state is Job.starting
    job.pod_problem = pod_diagnosis.failure(pods, seen) if starting else None
    cause = None
    if not job.body["status"].get("conditions") and (rejection := pod_diagnosis.rejected(seen)) is not None:
        cause = FailedReason.job_rejected, rejection
    elif starting and (hopeless := pod_diagnosis.hopeless(pods, seen)) is not None:
        cause = hopeless
    elif runner.runner.job_kind.may_restart and (pod_diagnosis.failed(made) or pod_diagnosis.restarts(made)):
        # Its controller would start it again, and what it then measures is no attempt of ours.
        cause = pod_diagnosis.failure(made) or (FailedReason.rank_failed, "a container failed, and was started again")
    elif late:
        reason, problem = job.pod_problem or (FailedReason.deadline_exceeded, waiting or HANG)
        cause = reason, deadline_message(trial.spec.deadline_seconds, problem)
    return _end_trial(trial, job, cause) if cause is not None else ProbeResult(waiting)


def _end_trial(trial: TrialReconciliation, job: CachedJob, cause: Cause) -> ProbeResult:
    trial.end(job, cause)
    return ProbeResult(changed=True)


def time_left(trial: TrialReconciliation, job: CachedJob, status: JobStatus) -> float:
    """Seconds until a job is to be ended for exceeding its deadline; infinite if it is ending anyway.

    We end it: a job that its own deadline ends (``JobRequest.backstop_seconds``) leaves no last lines.
    """
    if job.deleting or job.forced_end is not None or status.state is Job.ended:
        return math.inf
    if status.state is Job.queued:
        return _queue_time_left(trial.rec.index.spec, job)
    # From when it was released: time in a queue does not count. Of a job that was released again the operators of
    # kubeflow.org set startTime anew only when they come to it, so that until then it is that of the first start.
    began = job.body["status"].get("startTime") or job.body["metadata"]["creationTimestamp"]
    began = max(began, status.resumed_at or began)
    return unix_time(began) + trial.spec.deadline_seconds - time.time()


def deadline_cause(job: CachedJob, status: JobStatus | None, deadline: int) -> Cause | None:
    """For a job that its own deadline ended while it was Starting: what its pods last suffered from."""
    if job.pod_problem is None or status is None or status.reason is not FailedReason.deadline_exceeded:
        return None
    return job.pod_problem[0], deadline_message(deadline, job.pod_problem[1])


def deadline_message(deadline: int, problem: str) -> str:
    """What is reported of a job past its deadline."""
    return f"did not end within deadlineSeconds, {deadline}" + (f": {problem}" if problem else "")


async def _events(trial: TrialReconciliation, job: CachedJob) -> list[Object]:
    """Events about a job and about those that it makes: a quota that blocks their pods is reported there."""
    events: list[Object] = []
    children = (f"involvedObject.name={job.name}{child}" for child in trial.runner.runner.job_kind.child_jobs)
    for field in (f"involvedObject.uid={job.uid}", *children):
        events += await trial.rec.cluster.list(EVENTS, trial.rec.key.namespace, fieldSelector=field)
    return events


async def _refetch(trial: TrialReconciliation, job: CachedJob) -> bool:
    """Fetch a job that the watch has not shown for long; whether it differs from the cached one."""
    current = await trial.fetch_job(job.name)
    job.last_seen = time.monotonic()
    if current is None:
        return trial.rec.cache.delete_job(job.body) is not None
    return trial.rec.cache.upsert_job(current) is not None


async def _look(rec: Reconciliation, job: CachedJob, status: JobStatus) -> tuple[str | None, Cause | None]:
    """What a queued job waits for, and why it has to end, if it has to."""
    workload = await _workload(rec, job)
    waiting: str | None = f"queue {rec.index.spec.queue}: no Workload of Kueue for this {job.body['kind']} yet"
    cause: Cause | None = None
    if workload is not None:
        waiting, cause = diagnosis(workload, status.message)
        if waiting is not None and waiting != rec.waiting.get(job.trial):
            await events.trial_queued(rec.cluster, rec.key, job.trial, job.owner, waiting)
    if cause is None and _queue_time_left(rec.index.spec, job) <= 0:
        limit = f"was not admitted within queueDeadlineSeconds, {rec.index.spec.queue_deadline_seconds}"
        cause = FailedReason.queue_deadline_exceeded, f"{limit}: {waiting}" if waiting else limit
    return waiting, cause


def _queue_time_left(spec: ExperimentSpec, job: CachedJob) -> float:
    """Seconds until a queued job is to be ended for waiting too long; infinite without ``queueDeadlineSeconds``."""
    if spec.queue_deadline_seconds is None:
        return math.inf
    created = job.body["metadata"]["creationTimestamp"]
    since = max(created, conditions_of(job.body).get("Suspended", {}).get("lastTransitionTime") or created)
    return unix_time(since) + spec.queue_deadline_seconds - time.time()


def diagnosis(workload: Mapping[str, Any], otherwise: str) -> tuple[str | None, Cause | None]:
    """What a Workload that is not admitted says, and why it never will be; pure."""
    holding, refusing = conditions_of(workload), conditions_of(workload, "False")
    evicted = holding.get("Evicted") or {}
    if (workload.get("spec") or {}).get("active") is False:
        said = evicted.get("message") or "its Workload is deactivated"
        return None, (FailedReason.never_admissible, f"Kueue deactivated it: {said}")
    if (reserved := refusing.get("QuotaReserved")) is not None:
        said = f"{reserved.get('reason') or 'Pending'}: {reserved.get('message') or ''}"
        if any(word in said for word in _NEVER):
            return None, (FailedReason.never_admissible, f"Kueue can never admit it: {said}")
        before = f"; evicted before, {evicted['reason']}" if evicted.get("reason") else ""
        return f"Kueue: {said}{before}", None
    if "QuotaReserved" in holding and "Admitted" not in holding:
        checks = (workload.get("status") or {}).get("admissionChecks") or ()
        open_checks = [f"{entry['name']} {entry.get('message') or entry['state']}" for entry in checks
                       if entry.get("state") != "Ready"]  # fmt: skip
        return f"Kueue: quota is reserved; admission checks: {', '.join(open_checks) or 'none open'}", None
    return otherwise or None, None


async def _workload(rec: Reconciliation, job: CachedJob) -> Object | None:
    """The job's Workload; None where there is none, or no Kueue, or no right to see it."""
    for resource in WORKLOADS:
        try:
            found = await rec.cluster.list(resource, rec.key.namespace, labelSelector=f"{_JOB_UID}={job.uid}")
        except ApiStatusError as refused:
            if refused.status == _NO_SUCH_THING:
                continue
            if refused.status == _NOT_ALLOWED:
                return None
            raise
        # Kueue names a job's Workloads anew after some changes: the newest counts.
        return max(found, key=lambda body: body["metadata"]["creationTimestamp"], default=None)
    return None
