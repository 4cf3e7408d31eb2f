"""Where the CPU time of a machine's cores went, from the text of /proc/stat."""

from collections.abc import Sequence
from typing import NamedTuple

# Fields of a cpu line (man 5 proc). Interrupt time is excluded: the kernel charges it to nobody, and this trial's own
# network traffic causes it.
_BUSY_FIELDS = (0, 1, 2)  # user, nice, system
_STEAL_FIELD = 7  # a virtual core that was ready to run while the hypervisor ran another guest


class CpuTime(NamedTuple):
    """CPU seconds since boot, summed over some cores."""

    busy_s: float
    stolen_s: float


def cpu_time(stat: str, cores: Sequence[int], ticks: int) -> CpuTime | None:
    """Time of ``cores`` in a text of /proc/stat with ``ticks`` a second; None where a core is missing."""
    lines = {name: fields for name, *fields in map(str.split, filter(None, stat.splitlines())) if len(fields) >= 8}
    rows = [lines.get(f"cpu{core}") for core in cores]
    if not rows or None in rows:
        return None
    busy = sum(int(row[field]) for row in rows if row for field in _BUSY_FIELDS)
    return CpuTime(busy / ticks, sum(int(row[_STEAL_FIELD]) for row in rows if row) / ticks)
