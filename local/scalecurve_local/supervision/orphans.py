"""Clean up after supervisors that died: processes, which carry their mark, and the temporary folder of an attempt.

This is the second safety net. The first is the supervisor, which outlives its engine and leaves either only if it is
killed itself. The folder has the attempt's id as its name, which is read back from a file that may be somebody else's:
so only what an engine of this user could have made is removed, directly below the folder for temporary files.
"""

import os
import re
import shutil
import signal
import stat
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scalecurve_local.supervision.supervisor import SUPERVISOR_ENV, identity, processes, send

_PATIENCE_S = 10.0
_PREFIX = "scalecurve-"
_ID = re.compile(rf"{_PREFIX}[0-9a-f]{{12}}")


def new_id() -> str:
    """An id for an attempt, chosen before anything is made: no kill then leaves an unknown folder behind."""
    return f"{_PREFIX}{uuid.uuid4().hex[:12]}"


def temporary_of(attempt_id: str) -> Path:
    """The temporary folder of an attempt."""
    return Path(tempfile.gettempdir(), attempt_id)


def remove_temporary(attempt_id: str) -> None:
    """Remove an attempt's temporary folder as far as possible; anything that is no engine's folder is left alone."""
    if _ID.fullmatch(attempt_id):
        with suppress(OSError):
            there = (folder := temporary_of(attempt_id)).lstat()
            if stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def end_orphans() -> int:
    """End every process in this PID namespace whose supervisor no longer runs; returns how many."""
    here = os.readlink("/proc/self/ns/pid")

    def is_abandoned(mark: str) -> bool:
        pid, namespace = mark.partition("/")[0], mark.rpartition("/")[2]
        return namespace == here and pid.isdigit() and identity(int(pid)) != mark

    return end_marked(is_abandoned)


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
