"""Which experiments hold their pool: what ``pools`` decides from, kept up to date, and said in a condition."""

from __future__ import annotations

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_kube.client import Object
from scalecurve_operator.cache.object_cache import ExperimentSeen, Key, Sightings
from scalecurve_operator.reconcile import pools
from scalecurve_operator.settings import Settings
from scalecurve_operator.status import render as statuses

ADMITTED = "Admitted"


class Admission:
    """Entries of every unfinished experiment, by pool; what was let in before is read from its status."""

    def __init__(self, settings: Settings, sightings: Sightings) -> None:
        self.settings, self.sightings = settings, sightings
        self.pools: dict[str, dict[Key, pools.Entry]] = {}
        self.pool_of: dict[Key, str] = {}
        self.complete = False

    def ask(self, key: Key, seen: ExperimentSeen, busy: bool) -> bool:
        """Whether this experiment may start trials now; once let in it stays so until it leaves."""
        self._gather()
        entry = self._entry(key, seen, busy)
        if self.pool_of.get(key, self._pool(seen)) != self._pool(seen):
            self.leave(key)
        mates = self.pools.setdefault(self._pool(seen), {})
        known = mates.get(key)
        if known is not None and known.holds and entry.wants:
            mates[key] = _holding(entry)
            return True
        mates[key], self.pool_of[key] = entry, self._pool(seen)
        if key in pools.admitted(mates.values(), self.settings.slots(self._pool(seen))):
            mates[key] = _holding(entry)
            return True
        return False

    def condition(self, key: Key, seen: ExperimentSeen, spec: ExperimentSpec, ended: bool = False) -> Object:
        """Whether it holds its pool, and if not, who does; the same for every experiment that has ``ended``."""
        mates = self.pools.get(spec.pool, {})
        entry = mates.get(key) if not ended else None
        if spec.suspend and not ended:
            if entry is not None:
                busy = bool(self.sightings.family(key).jobs)
                mates[key] = pools.Entry(key, entry.created, False, False, busy)
            return statuses.condition(ADMITTED, False, "Suspended", "spec.suspend is true; nothing more is started")
        if entry is not None and entry.holds:
            return statuses.condition(ADMITTED, True, "HoldsPool", f"holds a place of pool {spec.pool!r}")
        if entry is None:
            return statuses.condition(ADMITTED, True, "NothingToStart", "nothing more is to be started")
        holders = sorted(str(other.key) for other in mates.values() if other.holds or other.busy)
        before = pools.place(mates.values(), key, {other.key for other in mates.values() if other.holds})
        said = f"pool {spec.pool!r} is held by {', '.join(holders[:3]) or 'nobody'}; {before} before this one"
        return statuses.condition(ADMITTED, False, "WaitsForPool", said)

    def leave(self, key: Key) -> list[Key]:
        """Take an experiment out of its pool; those that wait there now have a chance."""
        pool = self.pool_of.pop(key, None)
        if pool is None:
            return []
        mates = self.pools.get(pool, {})
        if mates.pop(key, None) is None:
            return []
        waiting = sorted((e.created, e.key) for e in mates.values() if e.wants and not e.holds)
        return [each for _, each in waiting[: self.settings.slots(pool)]]

    def _gather(self) -> None:
        """After a start, know all that were let in before anybody new is."""
        if self.complete:
            return
        self.complete = True
        for key, family in self.sightings.families.items():
            seen = family.experiment
            if seen is None or seen.deleting:
                continue
            # Pods of one that has ended may still run while its last job is being deleted.
            if family.jobs or not seen.ended:
                pool = self._pool(seen)
                self.pools.setdefault(pool, {})[key] = self._entry(key, seen, bool(family.jobs))
                self.pool_of[key] = pool

    def _entry(self, key: Key, seen: ExperimentSeen, busy: bool) -> pools.Entry:
        spec = seen.body.get("spec") or {}
        wants = not (spec.get("suspend") or spec.get("cancel") or seen.ended)
        return pools.Entry(key, seen.created, statuses.holds(seen.status, ADMITTED), wants, busy)

    def _pool(self, seen: ExperimentSeen) -> str:
        return str((seen.body.get("spec") or {}).get("pool") or "default")


def _holding(entry: pools.Entry) -> pools.Entry:
    return pools.Entry(entry.key, entry.created, True, entry.wants, entry.busy)
