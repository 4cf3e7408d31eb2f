"""Who may run trials now: experiments of a pool take turns, first come, first served. Pure.

An experiment keeps its slot until it ends, or is suspended and has no job left; when it is resumed it queues again, at
its age.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scalecurve_operator.cache.cached_objects import Key


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """An unfinished experiment of a pool."""

    key: Key
    created: str
    """RFC 3339; experiments of the same second are ordered by name"""
    admitted: bool
    """has been admitted before"""
    active: bool
    """neither suspended nor cancelled"""
    busy: bool
    """has jobs"""


def admitted(entries: Collection[PoolEntry], slots: int) -> set[Key]:
    """Those that may start trials: the holders of slots, then the oldest that are active."""
    holders = [entry for entry in entries if entry.busy or (entry.admitted and entry.active)]
    # Nothing that runs is evicted, not even if the slots were reduced.
    allowed = {entry.key for entry in holders if entry.active}
    return allowed | set(waiting(entries, allowed)[: max(0, slots - len(holders))])


def waiting(entries: Iterable[PoolEntry], allowed: Collection[Key]) -> list[Key]:
    """The active experiments that are not allowed to start, oldest first."""
    return [key for _, key in sorted((e.created, e.key) for e in entries if e.active and e.key not in allowed)]
