"""The CPU cores this process may use: affinity, cgroup quota, hardware threads that share one; how busy they are."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve_api.record.cpu_time import cpu_time

ROOT = Path("/")


@dataclass(frozen=True)
class Cores:
    """``siblings``: the usable hardware threads of each physical core; ``quota`` is in cores, None for no limit."""

    siblings: tuple[tuple[int, ...], ...]
    quota: float | None = None

    @property
    def threads(self) -> int:
        return sum(map(len, self.siblings))

    @property
    def budget(self) -> int:
        """How many threads may be busy at once under the quota; at least one."""
        return self.threads if self.quota is None else max(1, min(self.threads, int(self.quota + 1e-9)))


def survey_cores(root: Path = ROOT) -> Cores:
    """The cores that the kernel and the cgroups allow this process."""
    usable = os.sched_getaffinity(0)
    return Cores(group_siblings(usable, root), read_quota(root))


def group_siblings(usable: Iterable[int], root: Path = ROOT) -> tuple[tuple[int, ...], ...]:
    """Threads by physical core, in the order of the first; each its own if the kernel does not say."""
    usable = set(usable)
    groups: dict[tuple[int, ...], None] = {}
    for cpu in sorted(usable):
        path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            together = parse_list(path.read_text())
        except (OSError, ValueError):
            together = {cpu}
        groups[tuple(sorted((together | {cpu}) & usable))] = None
    return tuple(groups)


def parse_list(text: str) -> set[int]:
    """Parse the kernel's list format, such as ``0-3,8``."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        numbers |= set(range(int(low), int(high or low) + 1))
    return numbers


def read_quota(root: Path = ROOT) -> float | None:
    """The smallest CPU quota of this process's cgroup and its parents, in cores (v1 and v2)."""
    limits = [limit for folder in control_groups("cpu", root) if (limit := _quota_of(folder)) is not None]
    return min(limits, default=None)


def oom_counters(root: Path = ROOT) -> list[str]:
    """Files that count OOM kills: those of this process's cgroup, else the machine's."""
    names = ("memory.events", "memory.oom_control")
    paths = (folder / name for folder in control_groups("memory", root) for name in names)
    return [str(next(filter(Path.is_file, paths), root / "proc/vmstat"))]


def control_groups(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Folders of this process's cgroup for ``controller``, from the innermost up to the mount point."""
    try:
        memberships = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for line in memberships:
        _, names, inside = line.split(":", 2)
        unified = names == ""
        if not unified and controller not in names.split(","):
            continue
        for top, base in _mounts(mounts, None if unified else controller):
            # In a container the path may lie outside the mount: then the mount itself is this process's cgroup.
            relative = os.path.relpath(inside, base) if inside.startswith(base) else "."
            folder = Path(os.path.normpath(root / top.lstrip("/") / relative))
            highest = root / top.lstrip("/")
            for outer in (folder, *folder.parents):
                if outer.is_dir():
                    yield outer
                if outer == highest or highest not in outer.parents:
                    break


def _mounts(lines: Iterable[str], controller: str | None) -> Iterator[tuple[str, str]]:
    """``(mount point, root of the mount)`` of cgroup2, or of the v1 hierarchy with ``controller``."""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind, options = before.split(), after.split(" ")[0], after.rsplit(" ", 1)[-1].split(",")
        if kind == ("cgroup2" if controller is None else "cgroup") and controller in (None, *options):
            yield fields[4], fields[3]


def _quota_of(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()[:2]
            return None if quota == "max" else int(quota) / int(period)
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        return quota_us / int((folder / "cpu.cfs_period_us").read_text()) if quota_us > 0 else None
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class CpuLoad:
    """Shares of some cores that other processes used, and that the hypervisor gave to other guests."""

    busy: float
    stolen: float


def measure_load(
    cores: Sequence[int], stat: Path = ROOT / "proc/stat", sleep: Callable[[float], None] = time.sleep
) -> CpuLoad | None:
    """The load over one second; None if the kernel does not report it."""
    ticks = os.sysconf("SC_CLK_TCK")
    try:
        before = cpu_time(stat.read_text(), cores, ticks)
        sleep(1)
        after = cpu_time(stat.read_text(), cores, ticks)
    except (OSError, ValueError):
        return None
    if before is None or after is None:
        return None
    return CpuLoad(*(min(1.0, max(0.0, (now - then) / len(cores))) for then, now in zip(before, after, strict=True)))
