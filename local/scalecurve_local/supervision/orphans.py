"""Processes whose supervisor is gone: they carry its mark in their environment, and are ended here.

This is the second net. The first is the supervisor itself, which outlives its engine; only its own violent end leaves
anything for this one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from scalecurve_local.supervision.supervisor import SUPERVISOR_ENV, identity, processes, send

_PATIENCE_S = 10.0


def end_orphans() -> int:
    """End every process whose supervisor, of this process's namespace, no longer runs. Returns how many there were."""
    here = os.readlink("/proc/self/ns/pid")

    def abandoned(mark: str) -> bool:
        pid, _, namespace = mark.partition("/")[0], None, mark.rpartition("/")[2]
        return namespace == here and pid.isdigit() and identity(int(pid)) != mark

    return end_marked(abandoned)


def end_marked(chosen: Callable[[str], bool]) -> int:
    """SIGKILL every process whose mark is ``chosen``, again and again until none is left."""
    seen: set[int] = set()
    until = time.monotonic() + _PATIENCE_S
    while found := marked(chosen):
        seen.update(found)
        refused = send(found, signal.SIGKILL)
        if len(refused) == len(found) or time.monotonic() > until:
            break
        time.sleep(0.01)
    return len(seen)


def marked(chosen: Callable[[str], bool]) -> list[int]:
    """Living processes whose supervisor's mark is ``chosen``."""
    prefix = f"{SUPERVISOR_ENV}=".encode()
    found: list[int] = []
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
            found.append(pid)
    return found
