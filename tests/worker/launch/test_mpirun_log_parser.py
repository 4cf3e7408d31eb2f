"""mpirun's own words, as Open MPI 5.0.11 wrote them in pods, and 4.1 writes them."""

from __future__ import annotations

import pytest

from scalecurve_api.record.rank import RankFailure
from scalecurve_worker.launch.mpirun_log_parser import lost_ranks, nearest_cause_first

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
DISCONNECTED = """An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or
otherwise exiting without calling MPI_FINALIZE first).

Although this local MPI process will likely now behave unpredictably
(it may even hang or crash), the root cause of this problem is the
failure of the peer -- that is what you need to investigate.  For
example, there may be a core file that you can examine.  More
generally: such peer hangups are frequently caused by application bugs
or other external events.

  Local host: j-worker-0
  Local PID:  47
  Peer host:  j-worker-1
--------------------------------------------------------------------------
[j-worker-0:00000] *** An error occurred in Socket closed
[j-worker-0:00000] *** on a NULL communicator
--------------------------------------------------------------------------
prterun has exited due to process rank 0 with PID 47 on node j-worker-0 calling
"abort"."""


@pytest.mark.parametrize(
    ("text", "rank", "reason", "said"),
    [
        (KILLED, 1, "RankKilled", "killed by SIGKILL in pod drill-weak-2-2x1-r1-a1-worker-1"),
        (KILLED_4, 3, "RankKilled", "killed by SIGSEGV in pod j-worker-1"),
        (LOST, 2, "RankFailed", "mpirun lost pod j-worker-1: it was deleted or killed"),
        (LOST_4, 2, "RankFailed", "mpirun lost pod j-worker-1: it was deleted or killed"),
        (DISCONNECTED, 2, "RankFailed", "a rank in pod j-worker-1 disconnected without finalizing MPI"),
        (NOT_BEGUN, 4, "RankFailed", "mpirun could not start ranks in pod j-worker-2"),
    ],
)
def test_what_was_lost(text: str, rank: int, reason: str, said: str) -> None:
    (found,) = lost_ranks(["step 1", *text.splitlines(), "scalecurve: no record in the log"], workers=2)
    assert (found.rank, found.reason) == (rank, reason)
    assert found.message.startswith(said)


def test_nothing_was_lost() -> None:
    assert lost_ranks(["prterun has exited due to process rank 0 with PID 0 on node n calling", '"abort".'], 1) == []


def test_a_kill_is_the_cause_of_the_broken_connection_that_its_peer_reports() -> None:
    # Found on a loaded machine: rank 0 had reported its broken connection before mpirun reported the kill.
    broken = RankFailure(rank=0, reason="RankFailed", message="RuntimeError: Connection closed by peer")
    killed = lost_ranks(KILLED.splitlines(), workers=1)
    assert nearest_cause_first([broken], killed) == [*killed, broken]


def test_a_kill_comes_before_the_disconnection_that_its_peer_saw() -> None:
    lost = lost_ranks([*DISCONNECTED.splitlines(), *KILLED.splitlines()], workers=1)
    assert [each.reason for each in nearest_cause_first([], lost)] == ["RankKilled", "RankFailed"]


def test_a_rank_that_spoke_before_it_was_killed_is_the_cause() -> None:
    own = RankFailure(rank=1, reason="RankFailed", message="OSError: no space left")
    killed = lost_ranks(KILLED.splitlines(), workers=1)
    lost = lost_ranks(LOST.splitlines(), workers=1)
    assert nearest_cause_first([own], [*killed, *lost]) == [own, *killed, *lost]
