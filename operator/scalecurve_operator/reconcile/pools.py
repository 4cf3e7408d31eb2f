"""Who may run trials now: experiments of one pool take turns, first come first served. Pure.

An experiment that holds its pool keeps it until it ends, or is suspended and has no job left; a suspended one gives
its place away and queues again, at its age, when it is resumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scalecurve_operator.cache.object_cache import Key


@dataclass(frozen=True, slots=True)
class Entry:
    """One unfinished experiment of a pool."""

    key: Key
    created: str
    """RFC 3339; experiments of one second go by name"""
    holds: bool
    """was let in before"""
    wants: bool
    """neither suspended nor cancelled"""
    busy: bool
    """has jobs"""


def admitted(entries: Iterable[Entry], slots: int) -> set[Key]:
    """Those that may start trials: who holds a place, then the oldest that wants one."""
    entries = list(entries)
    inside = [entry for entry in entries if entry.busy or (entry.holds and entry.wants)]
    # What runs is never put out, also not when the slots were made fewer: it is only that nobody follows.
    allowed = {entry.key for entry in inside if entry.wants}
    waiting = sorted((e for e in entries if e.wants and e.key not in allowed), key=lambda e: (e.created, e.key))
    return allowed | {entry.key for entry in waiting[: max(0, slots - len(inside))]}


def place(entries: Iterable[Entry], key: Key, allowed: set[Key]) -> int:
    """How many wait before ``key`` in its pool."""
    waiting = sorted((e for e in entries if e.wants and e.key not in allowed), key=lambda e: (e.created, e.key))
    return next((index for index, entry in enumerate(waiting) if entry.key == key), 0)
