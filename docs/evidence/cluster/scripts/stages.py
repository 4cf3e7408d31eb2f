"""Time and memory of each stage of a longer command, as its processes are seen by the kernel.

    stages = Stages(roots)
    with stages("images"):
        ...

Memory is proportional set size (shared pages are shared out), summed over every process that descends from this one or
from `roots`, the highest of samples taken every second or so.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_EVERY_S = 1.0
_MIB = 1 << 20


@dataclass(frozen=True)
class Stage:
    """One that has ended."""

    name: str
    seconds: float
    peak_bytes: int

    def line(self) -> str:
        """For people."""
        return f"{self.name:<12} {self.seconds:7.1f} s {self.peak_bytes / _MIB:8.0f} MiB"


class Stages:
    """A list of stages, printed as they end; `roots` are asked at every sample for further process ids."""

    def __init__(self, roots: Callable[[], list[int]] = list) -> None:
        self.ended: list[Stage] = []
        self._roots = roots

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        over = threading.Event()
        peak = [0]

        def watch() -> None:
            while True:
                peak[0] = max(peak[0], memory_of([os.getpid(), *self._roots()]))
                if over.wait(_EVERY_S):
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        started = time.monotonic()
        watcher.start()
        print(f"-- {name}", file=sys.stderr, flush=True)
        try:
            yield
        finally:
            seconds = time.monotonic() - started
            over.set()
            watcher.join()
            self.ended.append(Stage(name, round(seconds, 1), peak[0]))

    def table(self) -> str:
        """All of them, and their sum."""
        whole = Stage("all", sum(each.seconds for each in self.ended), max(each.peak_bytes for each in self.ended))
        return "\n".join(each.line() for each in [*self.ended, whole])


def memory_of(roots: list[int]) -> int:
    """Proportional set size of these processes and of all that descend from them, in bytes."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    waiting, seen, total = list(roots), set(), 0
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            total += _proportional(pid)
            waiting += children.get(pid, [])
    return total


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
