"""What open trials need beyond what ``lifecycle`` decides: companions, probes, reports of progress."""

import time

from scalecurve_api.crds.status import one_line
from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.cache.cached_objects import CachedJob
from scalecurve_operator.reconcile import actions
from scalecurve_operator.reconcile.job_probe import probe, time_left
from scalecurve_operator.reconcile.reconciliation import NAME_TAKEN, Reconciliation
from scalecurve_operator.reconcile.task_pool import gather_bounded

_FIRST_IN_QUEUE_S = 2.0


async def ensure_companions(rec: Reconciliation) -> None:
    """Create missing companions of every job, or report what cannot be helped."""
    newest = [jobs[-1] for name in rec.index.open_names() if (jobs := rec.objects.jobs_of(name))]
    incomplete = []
    for job in [job for job in newest if not job.deleting]:
        if job.trial not in rec.objects.trials:
            rec.blocked[job.trial] = NAME_TAKEN, f"{job.body['kind']} {job.name} exists, but its trial does not"
        elif not job.has_companions:
            incomplete.append(job)
    await gather_bounded([actions.create_companions(rec, job) for job in incomplete])
    if any(job.forced_end for job in incomplete):
        rec.enqueue()


async def probe_jobs(rec: Reconciliation) -> bool:
    """Probe jobs that take long; True if that changed something that calls for another reconcile."""
    changed, now, interval = False, time.monotonic(), rec.settings.starting_seconds
    for name in rec.index.open_names():
        if not (jobs := rec.objects.jobs_of(name)):
            continue
        job, left = jobs[-1], time_left(rec, name, jobs[-1])
        # A queue says soon what it will never admit.
        first = min(interval, _FIRST_IN_QUEUE_S) if rec.index.spec.queue else interval
        due = max(rec.probed.get(name, 0.0) + interval, job.first_seen + first)
        if (wait := min(due - now, left)) > 0:
            rec.enqueue(wait + 0.01)
            continue
        rec.probed[name] = now
        result = await probe(rec, name)
        changed = changed or result.changed
        rec.waiting.pop(name, None)
        if result.waiting:
            rec.waiting[name] = one_line(result.waiting, 512)  # as it will be written
        rec.enqueue(min(interval, left if left > 0 else interval) + 0.01)
    return changed


def all_queued(rec: Reconciliation) -> bool:
    """Whether it has jobs, and each of them waits in a queue."""
    jobs = list(rec.objects.jobs.values())
    waits = (not (job.deleting or job.forced_end) and _state(rec, job) is Job.queued for job in jobs)
    return bool(jobs) and all(waits)


def _state(rec: Reconciliation, job: CachedJob) -> Job:
    return rec.runner(job.trial).read(job.body).state


async def report_progress(rec: Reconciliation) -> None:
    """Bring the status of every open trial up to date."""
    writes = []
    for name, phase in zip(rec.names, rec.decision.status.phases, strict=True):
        trial, jobs = rec.objects.trials.get(name), rec.objects.jobs_of(name)
        if trial is None or not jobs or trial.status is None or phase.final or phase is TrialPhase.collecting:
            continue
        if trial.phase != phase.value or trial.status.get("message") != rec.waiting.get(name):
            writes.append(actions.report_progress(rec, name, phase, jobs[-1]))
    await gather_bounded(writes)
