"""CPU time that other processes and the hypervisor took from this rank's cores, from the kernel's counters."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scalecurve_api.record.cpu_time import cpu_time
from scalecurve_api.record.rank import Usage
from scalecurve_worker.monitor.usage import thinned

# The counters move in ticks of 10 ms: over a shorter time their steps would be taken for load.
LEAST_WALL_S = 1.0


class CpuUse(NamedTuple):
    """CPU seconds of some cores: used, stolen by the hypervisor, and used by this process with its children."""

    busy_s: float
    stolen_s: float
    own_s: float
    wall_s: float


class CpuMeter:
    """Reads the counters of ``cores`` between ``begin`` and ``end``."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores)
        self._begun: CpuUse | None = None
        self._ended: CpuUse | None = None
        self._reads: list[CpuUse] = []

    def begin(self) -> None:
        if self._begun is None:
            self._begun = self._read()

    def end(self) -> None:
        self._ended = self._read()
        if self._ended is not None:
            self._reads.append(self._ended)

    def used(self) -> CpuUse | None:
        """Return what was used between the beginning and the end; None where the kernel does not say."""
        if self._begun is None or self._ended is None:
            return None
        return CpuUse(*(end - begin for begin, end in zip(self._begun, self._ended, strict=True)))

    def usage(self) -> list[Usage]:
        """Share of the cores that this process used from each ``end`` to the next, over ``LEAST_WALL_S`` or more."""
        if self._begun is None:
            return []
        first, last, found = self._begun, self._begun, list[Usage]()
        for read in self._reads:
            share = own_share(CpuUse(*(now - then for now, then in zip(read, last, strict=True))), len(self._cores))
            if share is not None:
                found.append(Usage(until_s=round(read.wall_s - first.wall_s, 3), share=round(share, 4)))
                last = read
        return thinned(found)

    def _read(self) -> CpuUse | None:
        if sys.platform != "linux":
            return None
        spent = cpu_time(Path("/proc/stat").read_text(), self._cores, os.sysconf("SC_CLK_TCK"))
        return None if spent is None else CpuUse(*spent, _own_seconds(), time.monotonic())


def stolen_share(mine: CpuUse, cores: int) -> float | None:
    """Share of ``cores`` that the hypervisor gave to other guests while they had work."""
    return _share(mine.stolen_s, mine.wall_s, cores)


def foreign_share(mine: CpuUse, cores: int, own_of_sharers_s: float) -> float | None:
    """Share of ``cores`` that nobody of this trial used; ``own_of_sharers_s`` is CPU time of all ranks on them."""
    return _share(mine.busy_s - own_of_sharers_s, mine.wall_s, cores)


def own_share(mine: CpuUse, cores: int) -> float | None:
    """Share of ``cores`` that this process and its children used."""
    return _share(mine.own_s, mine.wall_s, cores)


def _share(seconds: float, wall_s: float, cores: int) -> float | None:
    return min(1.0, max(0.0, seconds / (wall_s * cores))) if wall_s >= LEAST_WALL_S and cores else None


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
