"""The control group of a node, below which kubelet keeps its pods: version 1 in every hierarchy, or version 2."""

import contextlib
import os
import signal
import time
import zlib
from pathlib import Path

from tools.devcluster import toolchain
from tools.devcluster.nodes.machine import cgroup_mounts

_WANTED = ("cpu", "cpuset", "io", "memory", "hugetlb", "pids")
_GONE_S = 20.0


def _name(node: str) -> str:
    """Of a node's groups; another build cache, perhaps in another container, has other ones."""
    return f"scalecurve-{zlib.crc32(bytes(toolchain.cache())):08x}-{node}"


def make(node: str) -> str:
    """Make the groups of a node; their path below each mount, as kubelet's `cgroupRoot` takes it."""
    for mount in cgroup_mounts():
        group = mount / _name(node)
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 leaves them empty, and then no process may enter
            if (group / name).exists() and (mount / name).exists():
                (group / name).write_text((mount / name).read_text())
        if (mount / "cgroup.controllers").exists():
            there = (mount / "cgroup.controllers").read_text().split()
            for where in (mount, group):
                (where / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _WANTED if name in there))
    return f"/{_name(node)}"


def remove() -> None:
    """Kill what is left in the groups of any node, and remove them. Raises TimeoutError when one cannot be removed."""
    deadline = time.monotonic() + _GONE_S
    while left := [group for mount in cgroup_mounts(every=True) for group in mount.glob(_name("*"))]:
        for group in left:
            # A directory of a control group goes with its files; only the directories in it have to go before.
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
                    continue
                _kill(Path(folder) / "cgroup.procs")
        if time.monotonic() > deadline:
            raise TimeoutError(f"control groups that stay: {', '.join(map(str, left))}")
        time.sleep(0.02)


def _kill(processes: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in map(int, processes.read_text().split()):
            if pid:
                os.kill(pid, signal.SIGKILL)
