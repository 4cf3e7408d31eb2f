"""The init process of a pod that hosts another program: reaps children, forwards signals, watches memory.

Where the kernel kills a rank for the pod's memory the container lives on, for a rank is not its first process, and
nobody outside can tell. So whoever stands by ends the pod then: the kubelet reports OOMKilled.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scalecurve_api.contract import TERMINATION_ENV

_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_EVERY_S = 0.5
KILLED = 128 + signal.SIGKILL


def log(line: str) -> None:
    """Print a line of ScaleCurve's own into the pod's log."""
    print(f"scalecurve: {line}", file=sys.stderr, flush=True)


def leave_termination(text: str) -> None:
    """Leave the pod's termination message, for the operator to read."""
    path = os.environ.get(TERMINATION_ENV, "").strip() or "/dev/termination-log"
    try:
        Path(path).write_text(text)
    except OSError as error:
        log(f"no termination message: {path}: {error.strerror}")


def oom_kills(counters: tuple[str, ...] = _COUNTERS) -> int:
    """Count the out-of-memory kills in cgroup v2 or v1, as the container sees its own; 0 where neither can be read."""
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


def run_as_init(command: Sequence[str], kills: Callable[[], int] = oom_kills) -> int:
    """Run ``command`` to its end, or until the kernel has killed something of this pod; the exit code to end with."""
    before = kills()
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # with a handler it wakes the select below
    signals: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: signals.append(number))
    process = subprocess.Popen(command)
    while True:
        code = _reap(process.pid)
        if code is not None:
            return code if code >= 0 else 128 - code
        while signals:
            os.kill(process.pid, signals.pop(0))  # not reaped yet: its number is its own
        if kills() > before:
            process.kill()
            return KILLED
        if select.select([read_end], [], [], _EVERY_S)[0]:
            os.read(read_end, 4096)


def _reap(child: int) -> int | None:
    """Collect every child that has ended, orphans too; the exit code of the one that is wanted, if it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        if pid == child:
            return os.waitstatus_to_exitcode(status)
