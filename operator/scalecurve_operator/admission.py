"""Who may run trials now: the namespaces of a pool take turns, and within each its experiments, oldest first.

An experiment keeps its slot until it ends, or is suspended and has no job left; when it is resumed it queues again, at
its age.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_kube.resources import Object, unix_time
from scalecurve_operator.cache.cached_objects import CachedExperiment, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.settings import UNLISTED, Settings
from scalecurve_operator.status import render

ADMITTED = "Admitted"


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """An unfinished experiment of a pool."""

    key: Key
    created: str  # RFC 3339; experiments of the same second are ordered by name
    admitted: bool  # before
    active: bool  # neither suspended nor canceled
    busy: bool  # has jobs
    queued: bool = False  # all its jobs wait in a queue of Kueue: it uses no node, so it holds no slot


Turns = Mapping[str, float]
"""namespace -> Unix time at which it was last given a slot of the pool"""


def admitted(entries: Collection[PoolEntry], slots: int, turns: Turns) -> set[Key]:
    """Those that may start trials: the holders of slots, then those whose turn it is."""
    begun = {entry.key for entry in entries if entry.busy or (entry.admitted and entry.active)}
    holders = begun - {entry.key for entry in entries if entry.queued}
    # Nothing that runs is evicted, not even if the slots were reduced, or if a queue releases what it kept waiting.
    allowed = {entry.key for entry in entries if entry.active and entry.key in begun}
    able = [entry for entry in entries if not entry.queued]
    return allowed | set(waiting(able, holders, turns)[: max(0, slots - len(holders))])


def waiting(entries: Collection[PoolEntry], holders: Collection[Key], turns: Turns) -> list[Key]:
    """The active experiments that hold no slot, in the order of their turns.

    The namespace with the fewest slots comes first, then the one whose last turn is longest ago. So an experiment waits
    for those before it in its own namespace, and for each of them and itself for one of every other namespace.
    """
    places, queue = Counter(key.namespace for key in holders), []
    for entry in sorted((e for e in entries if e.active and e.key not in holders), key=lambda e: (e.created, e.key)):
        namespace = entry.key.namespace
        queue.append((places[namespace], turns.get(namespace, 0.0), entry.created, entry.key))
        places[namespace] += 1
    return [key for *_, key in sorted(queue)]


class Admission:
    """The unfinished experiments of every pool; which of them were admitted before is read from their status."""

    def __init__(self, settings: Settings, cache: ObjectCache) -> None:
        self.settings, self.cache = settings, cache
        self.pools: dict[str, dict[Key, PoolEntry]] = {}
        self.pool_of: dict[Key, str] = {}
        self.turns: dict[str, dict[str, float]] = defaultdict(dict)  # pool -> when its namespaces had their last turns
        self.complete = False

    def admit(self, key: Key, experiment: CachedExperiment, busy: bool) -> bool:
        """Whether this experiment may start trials now; once admitted, it may until it leaves."""
        self._load()
        pool, entry = self._pool(experiment), _entry(key, experiment, busy)
        if self.pool_of.get(key, pool) != pool:
            self.leave(key)
        entries = self.pools.setdefault(pool, {})
        current = entries.get(key)
        if current is None or not current.admitted or not entry.active:
            entries[key], self.pool_of[key] = entry, pool
            if key not in admitted(entries.values(), self.settings.slots(pool), self.turns[pool]):
                return False
            self.turns[pool][key.namespace] = time.time()
        entries[key] = replace(entry, admitted=True, queued=current is not None and current.queued)
        return True

    def note_queued(self, key: Key, queued: bool) -> list[Key]:
        """Whether a queue keeps all its jobs waiting; returns those that may be admitted in its place now."""
        entries = self.pools.get(pool := self.pool_of.get(key, ""), {})
        if (entry := entries.get(key)) is None or entry.queued == queued:
            return []
        entries[key] = replace(entry, queued=queued)
        return self._next(pool) if queued else []

    def condition(self, key: Key, spec: ExperimentSpec, ended: bool = False) -> Object:
        """Whether it holds a slot, and if not, who does; the same for every experiment that has ``ended``."""
        pool = self.settings.pool(spec.pool)
        entries = self.pools.get(pool, {})
        entry = entries.get(key) if not ended else None
        if spec.suspend and not ended:
            if entry is not None:
                entries[key] = replace(entry, admitted=False, active=False, busy=bool(self.cache.objects(key).jobs))
            return render.condition(ADMITTED, False, "Suspended", "spec.suspend is true; nothing more is started")
        if entry is None:
            return render.condition(ADMITTED, True, "NothingToStart", "there is nothing more to start")
        if entry.admitted:
            if entry.queued:
                return render.condition(ADMITTED, True, "InQueue", f"waits in queue {spec.queue!r}, and holds no slot")
            return render.condition(ADMITTED, True, "SlotHeld", f"holds a slot of pool {spec.pool!r}")
        holders = sorted(other.key for other in entries.values() if (other.admitted or other.busy) and not other.queued)
        queue = waiting(entries.values(), {other.key for other in entries.values() if other.admitted}, self.turns[pool])
        ahead = queue.index(key) if key in queue else 0
        held = f"held by {', '.join(map(str, holders[:3])) or 'no experiment'}; {ahead} ahead of this one"
        shared = "unlisted pools share one place," if pool == UNLISTED else f"pool {spec.pool!r} is"
        return render.condition(ADMITTED, False, "WaitingForPool", f"{shared} {held}")

    def leave(self, key: Key) -> list[Key]:
        """Take an experiment out of its pool; returns those that may be admitted now."""
        pool = self.pool_of.pop(key, None)
        entries = self.pools.get(pool, {}) if pool is not None else {}
        if pool is None or entries.pop(key, None) is None:
            return []
        return self._next(pool)

    def _next(self, pool: str) -> list[Key]:
        entries = self.pools[pool].values()
        holders = {entry.key for entry in entries if entry.admitted}
        return waiting(entries, holders, self.turns[pool])[: self.settings.slots(pool)]

    def _load(self) -> None:
        """After a start, load everything that was admitted before admitting anything new."""
        if self.complete:
            return
        self.complete = True
        for key, objects in self.cache.experiments.items():
            experiment = objects.experiment
            if experiment is None or experiment.deleting:
                continue
            pool = self._pool(experiment)
            if (started := experiment.status.get("startedAt")) is not None:
                turns = self.turns[pool]
                turns[key.namespace] = max(turns.get(key.namespace, 0.0), unix_time(started))
            # Pods of one that has ended may still run while its last job is being deleted.
            if objects.jobs or not experiment.ended:
                self.pool_of[key] = pool
                self.pools.setdefault(pool, {})[key] = _entry(key, experiment, bool(objects.jobs))

    def _pool(self, experiment: CachedExperiment) -> str:
        return self.settings.pool(str(experiment.spec.get("pool") or "default"))


def _entry(key: Key, experiment: CachedExperiment, busy: bool) -> PoolEntry:
    spec = experiment.spec
    active = not (spec.get("suspend") or spec.get("cancel") or experiment.ended)
    return PoolEntry(key, experiment.created, render.is_true(experiment.status, ADMITTED), active, busy)
