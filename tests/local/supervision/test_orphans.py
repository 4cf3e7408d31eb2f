"""Processes that carry the mark of a supervisor."""

import os
import signal
import subprocess

from scalecurve_local.supervision.orphans import end_marked, marked
from scalecurve_local.supervision.supervisor import SUPERVISOR_ENV
from tests.waiting import PATIENCE_S, eventually


def test_marked_processes_are_ended_and_counted():
    mark = f"{os.getpid()}/0/pid:[0]"  # of no PID namespace, so no other run on this machine ends it first
    with subprocess.Popen(["sleep", "600"], env={**os.environ, SUPERVISOR_ENV: mark}) as process:
        try:
            # Popen returns when exec has closed its pipe, just before the kernel shows the new environment.
            assert eventually(lambda: marked(mark.__eq__), "the process in /proc") == [process.pid]
            assert end_marked(mark.__eq__) == 1
            assert process.wait(PATIENCE_S) == -signal.SIGKILL
        finally:
            process.kill()
