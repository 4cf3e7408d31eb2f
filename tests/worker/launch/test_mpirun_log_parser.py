"""mpirun's own words, as Open MPI 5.0.11 wrote them in pods, and 4.1 writes them."""

from __future__ import annotations

import pytest

from scalecurve_worker.launch.mpirun_log_parser import lost_ranks

KILLED = """--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 33 on node drill-weak-2-2x1-r1-a1-worker-1 exited on
signal 9 (Killed).
--------------------------------------------------------------------------"""
KILLED_4 = "mpirun noticed that process rank 3 with PID 0 on node j-worker-1 exited on signal 11 (Segmentation fault)."
LOST = """PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-j-launcher-7@0,0] on node j-launcher
  Remote daemon: [prterun-j-launcher-7@0,2] on node j-worker-1

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job."""
LOST_4 = LOST.replace("PRTE", "ORTE").replace("prterun-j-launcher-7@0,2", "[38313,0],2")
NOT_BEGUN = """A daemon failed to report back after being spawned. This could
be due to several factors, including inability to find the
daemon executable, or the executable was unable to find its
required supporting libraries. In some cases, the daemon was
able to execute, but was unable to complete a TCP connection
back to prterun:

  Local host:    j-launcher
  Remote host:   j-worker-2
  Daemon exit status: 255"""


@pytest.mark.parametrize(
    ("text", "rank", "reason", "said"),
    [
        (KILLED, 1, "RankKilled", "killed by SIGKILL in pod drill-weak-2-2x1-r1-a1-worker-1"),
        (KILLED_4, 3, "RankKilled", "killed by SIGSEGV in pod j-worker-1"),
        (LOST, 2, "RankFailed", "mpirun lost pod j-worker-1: it was deleted or killed"),
        (LOST_4, 2, "RankFailed", "mpirun lost pod j-worker-1: it was deleted or killed"),
        (NOT_BEGUN, 4, "RankFailed", "mpirun could not start ranks in pod j-worker-2"),
    ],
)
def test_what_was_lost(text: str, rank: int, reason: str, said: str) -> None:
    (found,) = lost_ranks(["step 1", *text.splitlines(), "scalecurve: no record in the log"], workers=2)
    assert (found.rank, found.reason) == (rank, reason)
    assert found.message.startswith(said)


def test_nothing_was_lost() -> None:
    assert lost_ranks(["prterun has exited due to process rank 0 with PID 0 on node n calling", '"abort".'], 1) == []
