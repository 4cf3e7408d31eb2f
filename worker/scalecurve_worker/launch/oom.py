"""How often the kernel killed a process of this container for its memory."""

from __future__ import annotations

from pathlib import Path

_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def oom_kills(counters: tuple[str, ...] = _COUNTERS) -> int:
    """From cgroup v2 or v1, as the container sees its own; 0 where neither can be read.

    The kubelet reports OOMKilled for a container's first process only, and a rank is not that one.
    """
    for path in counters:
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdigit():
                return int(value)
    return 0
