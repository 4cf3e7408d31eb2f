"""Writing an experiment's status: when it is due, what it says, and against the object that it belongs to."""

import time
from collections.abc import Iterator, Sequence

from scalecurve_api.spec.job_kinds import AUTO
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import EXPERIMENTS, Object
from scalecurve_operator.cache.cached_objects import CachedExperiment, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.reconcile.reconciliation import Reconciliation
from scalecurve_operator.status import events, render

PUBLISH_INTERVAL_S = 2.0


async def publish(rec: Reconciliation, conditions: Sequence[Object]) -> None:
    """Write the status if it says something new, but no more often than people can read."""
    experiment, status, now = rec.objects.experiment, rec.decision.status, time.monotonic()
    if experiment is None or experiment.uid != rec.index.uid:
        return
    due = rec.published_at + PUBLISH_INTERVAL_S
    first = not rec.published and not experiment.status.get("phase")
    if not (first or rec.final or now >= due or experiment.status.get("phase") != status.phase.value):
        rec.enqueue(due - now)
        return
    new = _render(rec, experiment, conditions)
    if new in (experiment.status, rec.published):
        return
    # The Event goes first: whoever takes over after a kill finds the phase already written, and reports nothing.
    await events.experiment_ended(rec.cluster, rec.key, experiment.uid, experiment.status, new)
    if not await write(rec.cluster, rec.cache, rec.key, experiment, new):
        rec.enqueue()
    rec.published, rec.published_at = new, now


async def note_runner(rec: Reconciliation, experiment: CachedExperiment) -> bool:
    """Write which runner was chosen before anything starts under it; False if that has to be repeated."""
    named = experiment.spec.get("runner") not in (None, AUTO)
    if named or rec.choice is None or experiment.status.get("runner") == rec.choice.runner.value:
        return True
    noted = {**experiment.status, **render.runner(rec.choice)}
    if not await write(rec.cluster, rec.cache, rec.key, experiment, noted):
        rec.enqueue()
        return False
    await events.runner_chosen(rec.cluster, rec.key, experiment.uid, rec.choice.runner, rec.choice.reason)
    return True


def _render(rec: Reconciliation, experiment: CachedExperiment, conditions: Sequence[Object]) -> Object:
    before, generation, wall = experiment.status, rec.index.generation, time.time()
    entries = [*conditions, *_progress(rec, before)]
    current = [
        render.current_trial(name, rec.index.trial(name), phase, trial.status or {})
        for name, phase in zip(rec.names, rec.decision.status.phases, strict=True)
        if not phase.final and (trial := rec.objects.trials.get(name)) is not None and rec.objects.jobs_of(name)
    ]
    rendered = render.experiment(
        before,
        generation,
        rec.decision.status,
        current,
        render.headlines(rec.index.plan, rec.index.throughputs),
        render.conditions(before, entries, generation, wall),
        wall,
        rec.started_at,
    )
    return rendered | (render.runner(rec.choice) if rec.choice is not None else {})


def _progress(rec: Reconciliation, before: Object) -> Iterator[Object]:
    if rec.blocked:
        name, (reason, problem) = min(rec.blocked.items())
        yield render.condition("Stalled", True, reason, f"{name}: {problem}")
    elif rec.waiting:
        name, problem = min(rec.waiting.items())
        yield render.condition("Stalled", True, "JobWaiting", f"{name}: {problem}")
    yield from render.ends(rec.decision.status, before)


async def refuse(cluster: Cluster, cache: ObjectCache, key: Key, experiment: CachedExperiment, problem: str) -> bool:
    """Write that an experiment can never run; False if that has to be repeated."""
    status = render.refused(experiment.status, experiment.generation, problem, time.time())
    written = await write(cluster, cache, key, experiment, status)
    await events.experiment_ended(cluster, key, experiment.uid, {}, status)
    return written


async def write(cluster: Cluster, cache: ObjectCache, key: Key, experiment: CachedExperiment, status: Object) -> bool:
    """Write a status; False if the cache was behind the cluster, and now is not."""
    # The uid keeps the status from another experiment that was created under the same name since.
    body = EXPERIMENTS.body(name=key.name, namespace=key.namespace, uid=experiment.uid)
    try:
        written = await cluster.apply(EXPERIMENTS, key.namespace, {**body, "status": status}, "status")
    except ApiStatusError as refused:
        if refused.status not in (404, 409):
            raise
        # A watch that started over never reported that it was deleted or replaced.
        current = await cluster.get(EXPERIMENTS, key.namespace, key.name)
        if current is None:
            cache.delete_experiment(experiment.body)
        else:
            cache.upsert_experiment(current)
        return False
    cache.upsert_experiment(written)
    cache.note_write(EXPERIMENTS.plural, int(written["metadata"]["resourceVersion"]))
    return True
