"""What open trials need beyond what ``lifecycle`` decides: companions, probes, reports of progress."""

import logging
import time
from collections.abc import Iterator

from scalecurve_api.crds.status import one_line
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_kube.resources import unix_time
from scalecurve_operator.cache.cached_objects import CachedJob
from scalecurve_operator.metrics import TRIAL_START
from scalecurve_operator.reconcile.job_probe import probe, time_left
from scalecurve_operator.reconcile.reconciliation import NAME_TAKEN, Reconciliation
from scalecurve_operator.reconcile.task_pool import gather_bounded
from scalecurve_operator.reconcile.trial import ConflictError, TrialReconciliation
from scalecurve_operator.status import render

_FIRST_IN_QUEUE_S = 2.0

logger = logging.getLogger(__name__)


async def ensure_companions(rec: Reconciliation) -> None:
    """Create missing companions of every job, or report what cannot be helped."""
    incomplete = []
    for trial, job in _trials_with_jobs(rec):
        if job.deleting:
            continue
        if trial.seen is None:
            rec.blocked[trial.name] = NAME_TAKEN, f"{job.body['kind']} {job.name} exists, but its trial does not"
        elif not job.has_companions:
            incomplete.append((trial, job))
    await gather_bounded([trial.create_companions(job) for trial, job in incomplete])
    if any(job.forced_end for _, job in incomplete):
        rec.enqueue()


async def probe_jobs(rec: Reconciliation) -> bool:
    """Probe jobs that take long; True if that changed something that calls for another reconcile."""
    changed, now, interval = False, time.monotonic(), rec.settings.starting_seconds
    for trial, job in _trials_with_jobs(rec):
        name, status = trial.name, trial.status_of(job)
        left = time_left(trial, job, status)
        # A queue says soon what it will never admit.
        first = min(interval, _FIRST_IN_QUEUE_S) if rec.index.spec.queue else interval
        due = max(rec.probed.get(name, 0.0) + interval, job.first_seen + first)
        if (wait := min(due - now, left)) > 0:
            rec.enqueue(wait + 0.01)
            continue
        rec.probed[name] = now
        result = await probe(trial, job, status)
        changed = changed or result.changed
        rec.waiting.pop(name, None)
        if result.waiting:
            rec.waiting[name] = one_line(result.waiting, 512)  # as it will be written
        rec.enqueue(min(interval, left if left > 0 else interval) + 0.01)
    return changed


async def report_progress(rec: Reconciliation) -> None:
    """Bring the status of every open trial up to date."""
    writes = []
    for name, phase in zip(rec.names, rec.decision.status.phases, strict=True):
        trial = TrialReconciliation(rec, name)
        seen, jobs = trial.seen, trial.jobs
        if seen is None or not jobs or seen.status is None or phase.final or phase is TrialPhase.collecting:
            continue
        if seen.phase != phase.value or seen.status.get("message") != rec.waiting.get(name):
            writes.append(_report(trial, phase, jobs[-1]))
    await gather_bounded(writes)


async def _report(trial: TrialReconciliation, phase: TrialPhase, job: CachedJob) -> None:
    """Write into a trial's status how far its job has come."""
    seen, now = trial.object, time.time()
    status = seen.status or {}
    if phase is TrialPhase.running and seen.phase != phase.value and status:
        TRIAL_START.observe(max(0.0, now - unix_time(status["startedAt"])))
    try:
        await trial.write_status(render.progress_status(status, phase, job.uid, trial.rec.waiting.get(trial.name), now))
    except ConflictError as conflict:
        # Only a report: the next reconcile writes it from what is there then.
        logger.debug("%s: %s", trial.name, conflict)


def _trials_with_jobs(rec: Reconciliation) -> Iterator[tuple[TrialReconciliation, CachedJob]]:
    """Yield the open trials that have a job, each with its newest one."""
    for name in rec.index.open_names():
        trial = TrialReconciliation(rec, name)
        if jobs := trial.jobs:
            yield trial, jobs[-1]
