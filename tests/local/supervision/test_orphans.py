"""Processes that carry the mark of a supervisor."""

import os
import signal
import subprocess

from scalecurve_local.supervision.orphans import end_marked, marked
from scalecurve_local.supervision.supervisor import SUPERVISOR_ENV
from tests.waiting import PATIENCE_S


def test_marked_processes_are_ended_and_counted():
    mark = f"{os.getpid()}/0/pid:[0]"  # of no PID namespace, so no other run on this machine ends it first
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, SUPERVISOR_ENV: mark})
    assert marked(mark.__eq__) == [process.pid]
    assert end_marked(mark.__eq__) == 1
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
