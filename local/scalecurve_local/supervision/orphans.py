"""End processes whose supervisor died; they carry its mark in their environment.

This is the second safety net. The first is the supervisor, which outlives its engine and leaves processes only if it
is killed itself.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from scalecurve_local.supervision.supervisor import SUPERVISOR_ENV, identity, processes, send

_PATIENCE_S = 10.0


def end_orphans() -> int:
    """End every process in this PID namespace whose supervisor no longer runs; returns how many."""
    here = os.readlink("/proc/self/ns/pid")

    def abandoned(mark: str) -> bool:
        pid, namespace = mark.partition("/")[0], mark.rpartition("/")[2]
        return namespace == here and pid.isdigit() and identity(int(pid)) != mark

    return end_marked(abandoned)


def end_marked(chosen: Callable[[str], bool]) -> int:
    """SIGKILL processes whose mark is ``chosen`` until none is left."""
    ended: set[int] = set()
    until = time.monotonic() + _PATIENCE_S
    while pids := marked(chosen):
        ended.update(pids)
        refused = send(pids, signal.SIGKILL)
        if len(refused) == len(pids) or time.monotonic() > until:
            break
        time.sleep(0.01)
    return len(ended)


def marked(chosen: Callable[[str], bool]) -> list[int]:
    """Running processes whose supervisor's mark is ``chosen``."""
    prefix = f"{SUPERVISOR_ENV}=".encode()
    pids: list[int] = []
    for pid, (_, state, _) in processes().items():
        if pid == os.getpid() or state in "ZX":
            continue
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        marks = [
            entry.removeprefix(prefix).decode("utf-8", "replace") for entry in variables if entry.startswith(prefix)
        ]
        if marks and chosen(marks[0]):
            pids.append(pid)
    return pids
