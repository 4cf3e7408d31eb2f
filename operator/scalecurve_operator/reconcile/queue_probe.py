"""Why Kueue keeps a job waiting: its Workload says so. It is listed while the job is queued, and never watched.

What can never be admitted, as things are, ends the attempt: more than the queue's whole capacity, a queue that does not
exist, a Workload that somebody or ``waitForPodsReady`` has deactivated.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import FailedReason
from scalecurve_kube.errors import Refused
from scalecurve_kube.resources import WORKLOADS, Object, unix_time
from scalecurve_operator.cache.cached_objects import CachedJob, Cause
from scalecurve_operator.reconcile.reconciliation import Reconciliation
from scalecurve_operator.runners import JobStatus
from scalecurve_operator.runners.runner_kind import conditions_of
from scalecurve_operator.status import events

_JOB_UID = "kueue.x-k8s.io/job-uid"
"""Kueue's label of a Workload."""
_NO_SUCH_THING = 404
_NOT_ALLOWED = 403
_NEVER = ("maximum capacity", "doesn't exist")
"""Kueue's own words (0.19) in the message of QuotaReserved: a request above nominal quota and what may be borrowed,
and a LocalQueue that is not there."""


async def look(rec: Reconciliation, job: CachedJob, status: JobStatus) -> tuple[str | None, Cause | None]:
    """What a queued job waits for, and why it has to end, if it has to."""
    workload = await _workload(rec, job)
    waiting: str | None = f"queue {rec.index.spec.queue}: no Workload of Kueue for this {job.body['kind']} yet"
    cause: Cause | None = None
    if workload is not None:
        waiting, cause = diagnosis(workload, status.message)
        if waiting is not None and waiting != rec.waiting.get(job.trial):
            await events.trial_queued(rec.cluster, rec.key, job.trial, job.owner, waiting)
    if cause is None and time_left(rec.index.spec, job) <= 0:
        limit = f"was not admitted within queueDeadlineSeconds, {rec.index.spec.queue_deadline_seconds}"
        cause = FailedReason.queue_deadline_exceeded, f"{limit}: {waiting}" if waiting else limit
    return waiting, cause


def time_left(spec: ExperimentSpec, job: CachedJob) -> float:
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
        except Refused as refused:
            if refused.status == _NO_SUCH_THING:
                continue
            if refused.status == _NOT_ALLOWED:
                return None
            raise
        # Kueue names a job's Workloads anew after some changes: the newest counts.
        return max(found, key=lambda body: body["metadata"]["creationTimestamp"], default=None)
    return None
