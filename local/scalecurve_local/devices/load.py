"""How busy this machine's cores are before a run."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve_api.record.cpu_time import cpu_time


@dataclass(frozen=True)
class CpuLoad:
    """Shares of some cores that other processes used, and that the hypervisor gave to other guests."""

    busy: float
    stolen: float


def measure_load(
    cores: Sequence[int],
    seconds: float = 1.0,
    stat: Path = Path("/proc/stat"),
    sleep: Callable[[float], None] = time.sleep,
) -> CpuLoad | None:
    """The load over ``seconds``; None if the kernel does not report it."""
    ticks = os.sysconf("SC_CLK_TCK")
    try:
        before = cpu_time(stat.read_text(), cores, ticks)
        sleep(seconds)
        after = cpu_time(stat.read_text(), cores, ticks)
    except (OSError, ValueError):
        return None
    if before is None or after is None:
        return None
    total = seconds * len(cores)
    return CpuLoad(*(min(1.0, max(0.0, (now - then) / total)) for then, now in zip(before, after, strict=True)))
