"""Which experiments hold a slot of their pool: kept up to date for ``pools``, and reported in a condition."""

from dataclasses import replace

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_kube.resources import Object
from scalecurve_operator.admission.pools import PoolEntry, admitted, waiting
from scalecurve_operator.cache.cached_objects import CachedExperiment, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.settings import Settings
from scalecurve_operator.status import render

ADMITTED = "Admitted"


class Admission:
    """The unfinished experiments of every pool; which of them were admitted before is read from their status."""

    def __init__(self, settings: Settings, cache: ObjectCache) -> None:
        self.settings, self.cache = settings, cache
        self.pools: dict[str, dict[Key, PoolEntry]] = {}
        self.pool_of: dict[Key, str] = {}
        self.complete = False

    def admit(self, key: Key, experiment: CachedExperiment, busy: bool) -> bool:
        """Whether this experiment may start trials now; once admitted, it may until it leaves."""
        self._load()
        pool, entry = _pool(experiment), _entry(key, experiment, busy)
        if self.pool_of.get(key, pool) != pool:
            self.leave(key)
        entries = self.pools.setdefault(pool, {})
        current = entries.get(key)
        if current is None or not current.admitted or not entry.active:
            entries[key], self.pool_of[key] = entry, pool
            if key not in admitted(entries.values(), self.settings.slots(pool)):
                return False
        entries[key] = replace(entry, admitted=True)
        return True

    def condition(self, key: Key, spec: ExperimentSpec, ended: bool = False) -> Object:
        """Whether it holds a slot, and if not, who does; the same for every experiment that has ``ended``."""
        entries = self.pools.get(spec.pool, {})
        entry = entries.get(key) if not ended else None
        if spec.suspend and not ended:
            if entry is not None:
                entries[key] = replace(entry, admitted=False, active=False, busy=bool(self.cache.objects(key).jobs))
            return render.condition(ADMITTED, False, "Suspended", "spec.suspend is true; nothing more is started")
        if entry is None:
            return render.condition(ADMITTED, True, "NothingToStart", "there is nothing more to start")
        if entry.admitted:
            return render.condition(ADMITTED, True, "SlotHeld", f"holds a slot of pool {spec.pool!r}")
        holders = sorted(str(other.key) for other in entries.values() if other.admitted or other.busy)
        queue = waiting(entries.values(), {other.key for other in entries.values() if other.admitted})
        ahead = queue.index(key) if key in queue else 0
        message = (
            f"pool {spec.pool!r} is held by {', '.join(holders[:3]) or 'no experiment'}; {ahead} ahead of this one"
        )
        return render.condition(ADMITTED, False, "WaitingForPool", message)

    def leave(self, key: Key) -> list[Key]:
        """Take an experiment out of its pool; returns those that may be admitted now."""
        pool = self.pool_of.pop(key, None)
        entries = self.pools.get(pool, {}) if pool is not None else {}
        if pool is None or entries.pop(key, None) is None:
            return []
        holders = {other.key for other in entries.values() if other.admitted}
        return waiting(entries.values(), holders)[: self.settings.slots(pool)]

    def _load(self) -> None:
        """After a start, load everything that was admitted before admitting anything new."""
        if self.complete:
            return
        self.complete = True
        for key, objects in self.cache.experiments.items():
            experiment = objects.experiment
            if experiment is None or experiment.deleting:
                continue
            # Pods of one that has ended may still run while its last job is being deleted.
            if objects.jobs or not experiment.ended:
                pool = self.pool_of[key] = _pool(experiment)
                self.pools.setdefault(pool, {})[key] = _entry(key, experiment, bool(objects.jobs))


def _entry(key: Key, experiment: CachedExperiment, busy: bool) -> PoolEntry:
    spec = experiment.spec
    active = not (spec.get("suspend") or spec.get("cancel") or experiment.ended)
    return PoolEntry(key, experiment.created, render.is_true(experiment.status, ADMITTED), active, busy)


def _pool(experiment: CachedExperiment) -> str:
    return str(experiment.spec.get("pool") or "default")
