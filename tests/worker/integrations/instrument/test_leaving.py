from __future__ import annotations

import subprocess
import sys

from tests.waiting import PATIENCE_S

LEAVE = """
import atexit, threading, time, types
from scalecurve_worker.integrations.instrument import leaving
from scalecurve_worker.rendezvous.communicator import SingleProcess

leaving.GRACE_S = {grace}
ended = threading.Event()
# Its grace begins when the script is at its end, however long that takes.
leaving.time = types.SimpleNamespace(sleep=lambda seconds: ended.wait() and time.sleep(seconds))
atexit.register(print, "the script's own handler")
{before}
try:
    leaving.leave(SingleProcess(), {evaluation})
finally:
    print("the script's finally block")
    ended.set()
"""


def run(grace: float, evaluation: float = 0.0, before: str = "") -> subprocess.CompletedProcess[str]:
    script = LEAVE.format(grace=grace, evaluation=evaluation, before=before)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_script_ends_as_if_it_had_come_to_its_end() -> None:
    done = run(grace=60)
    assert (done.returncode, done.stdout) == (0, "the script's finally block\nthe script's own handler\n")
    assert done.stderr == "scalecurve: every window of the command is measured; it ends here\n"


def test_it_says_what_is_in_no_window() -> None:
    assert "is measured, without 2.5 s of evaluation between steps; it ends" in run(grace=60, evaluation=2.5).stderr


def test_a_script_that_hangs_at_its_end_is_ended() -> None:
    done = run(grace=0.2, before="threading.Thread(target=time.sleep, args=(600,)).start()")
    assert (done.returncode, done.stdout) == (0, "the script's finally block\n")
    assert "the command was still busy 0 s after its last step, and was ended" in done.stderr
