"""ScalingTrial objects: created, read in full, and written against the version that the cache holds."""

from scalecurve_api.spec.object_names import labels
from scalecurve_kube.errors import Refused
from scalecurve_kube.resources import EXPERIMENTS, TRIALS, Object, owner_uids
from scalecurve_operator.cache.cached_objects import CachedTrial
from scalecurve_operator.reconcile.reconciliation import Reconciliation


class Conflict(Exception):
    """The cache is behind the cluster; reconcile again."""


class NameTaken(Conflict):
    """An object of another owner has a name that this experiment needs, and may keep it."""


async def create(rec: Reconciliation, name: str) -> CachedTrial:
    """Create the object of a trial.

    Raises:
        Conflict: when it already exists, or was deleted again at once.
    """
    namespace, uid = rec.key.namespace, rec.index.uid
    body = TRIALS.body(
        name=name,
        namespace=namespace,
        labels=labels(rec.key.name),
        ownerReferences=[EXPERIMENTS.owner(rec.key.name, uid, blockOwnerDeletion=False, controller=True)],
    )
    created = await rec.cluster.create(TRIALS, namespace, {**body, "spec": rec.index.trial(name).wire()})
    if created is None:
        # Whoever created it may have gone on with it; our watch has not shown it yet.
        current = await rec.cluster.get(TRIALS, namespace, name)
        if current is not None:
            rec.cache.upsert_trial(current)
            if uid not in owner_uids(current):
                raise NameTaken(f"ScalingTrial {name} exists and belongs to another owner")
        raise Conflict(f"{name} already exists")
    return _cached(rec, name, created)


async def full_status(rec: Reconciliation, name: str, trial: CachedTrial) -> Object:
    """A trial's full status; that of an ended one is fetched."""
    if trial.status is None:
        current = await rec.cluster.get(TRIALS, rec.key.namespace, name)
        if current is None or int(current["metadata"]["resourceVersion"]) != trial.version:
            _update_cache(rec, name, trial, current)
            raise Conflict(f"{name} has changed")
        trial.status = current.get("status") or {}
    return trial.status


async def refetch(rec: Reconciliation, name: str, trial: CachedTrial) -> None:
    """Fetch a trial that may be gone, or another object by now."""
    _update_cache(rec, name, trial, await rec.cluster.get(TRIALS, rec.key.namespace, name))


async def write_status(rec: Reconciliation, name: str, trial: CachedTrial, status: Object) -> CachedTrial:
    """Write a trial's status against the cached version."""
    body = TRIALS.body(name=name, uid=trial.uid, resourceVersion=str(trial.version))
    try:
        written = await rec.cluster.apply(TRIALS, rec.key.namespace, {**body, "status": status}, "status")
    except Refused as refused:
        if refused.status not in (404, 409):
            raise
        await refetch(rec, name, trial)
        raise Conflict(f"{name}: {refused.message}") from refused
    return _cached(rec, name, written)


def _update_cache(rec: Reconciliation, name: str, trial: CachedTrial, current: Object | None) -> None:
    """A watch that started over never reports what was deleted in between."""
    if current is not None:
        rec.cache.upsert_trial(current)
    else:
        metadata = {"name": name, "namespace": rec.key.namespace, "uid": trial.uid, "labels": labels(rec.key.name)}
        rec.cache.delete_trial({"metadata": metadata})


def _cached(rec: Reconciliation, name: str, written: Object) -> CachedTrial:
    rec.cache.upsert_trial(written)
    rec.cache.note_write(TRIALS.plural, int(written["metadata"]["resourceVersion"]))
    if name not in rec.objects.trials:
        raise Conflict(f"{name} was deleted meanwhile")
    return rec.objects.trials[name]
