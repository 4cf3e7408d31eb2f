"""How much of this rank's cores other processes took, from the kernel's own counters."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LEAST_WALL_S = 1.0
"""The counters move in ticks of 10 ms: over a shorter time their steps would be taken for load."""

# Fields of a cpu line in /proc/stat (man 5 proc): user, nice, system, and steal, which another guest took.
# Interrupt time is left out: the kernel charges it to nobody, and this trial's own network traffic causes it.
_BUSY_FIELDS = (0, 1, 2, 7)


class CpuUse(NamedTuple):
    """CPU seconds used on some cores, and by this process with its children, over ``wall_s`` seconds."""

    busy_s: float
    own_s: float
    wall_s: float


class CpuMeter:
    """Reads the counters of ``cores`` between ``begin`` and ``end``."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores)
        self._begun: CpuUse | None = None
        self._ended: CpuUse | None = None

    def begin(self) -> None:
        if self._begun is None:
            self._begun = self._read()

    def end(self) -> None:
        self._ended = self._read()

    def used(self) -> CpuUse | None:
        """What was used between; None where the kernel does not say."""
        if self._begun is None or self._ended is None:
            return None
        return CpuUse(*(end - begin for begin, end in zip(self._begun, self._ended, strict=True)))

    def _read(self) -> CpuUse | None:
        if sys.platform != "linux":
            return None
        busy = busy_seconds(Path("/proc/stat").read_text(), self._cores, os.sysconf("SC_CLK_TCK"))
        return None if busy is None else CpuUse(busy, _own_seconds(), time.monotonic())


def busy_seconds(stat: str, cores: Sequence[int], ticks: int) -> float | None:
    """CPU seconds that ``cores`` were busy since boot, from the text of /proc/stat; None where a core is missing."""
    found: dict[str, int] = {}
    for line in stat.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and len(fields) >= 8:
            found[name] = sum(int(fields[field]) for field in _BUSY_FIELDS)
    if not cores or any(f"cpu{core}" not in found for core in cores):
        return None
    return sum(found[f"cpu{core}"] for core in cores) / ticks


def foreign_share(mine: CpuUse, cores: int, own_of_sharers_s: float) -> float | None:
    """Share of ``cores`` that nobody of this trial used; ``own_of_sharers_s`` is CPU time of all ranks on them."""
    if mine.wall_s < LEAST_WALL_S or cores < 1:
        return None
    return min(1.0, max(0.0, (mine.busy_s - own_of_sharers_s) / (mine.wall_s * cores)))


def _own_seconds() -> float:
    """CPU seconds of this process, of its children that have ended, and of all descendants that live."""
    times = os.times()
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # The command, in brackets, may hold spaces and brackets itself.
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
        used[int(entry.name)] = sum(map(int, fields[11:15])) / ticks
    total = times.user + times.system + times.children_user + times.children_system
    waiting = list(parents.get(os.getpid(), []))
    while waiting:
        child = waiting.pop()
        total += used[child]
        waiting += parents.get(child, [])
    return total
