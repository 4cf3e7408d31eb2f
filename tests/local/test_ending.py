"""From exit codes, logs and what ranks could say to one reason."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.files import Within
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec.trial import FailedReason
from scalecurve_local import ending
from scalecurve_local.attempt import CommandStatus, ExitReport
from scalecurve_local.ending import Ending, describe_ending, end_of_log, exit_codes, tail
from scalecurve_local.supervision import supervisor
from scalecurve_local.supervision.supervisor import Supervisor

TORCHRUN = """
E1120 elastic/multiprocessing/api.py:1003] failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: /bin/sh
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_11:00:00
  host      : box
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 77)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 77
"""
MPIRUN = """
prterun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

   Process name: [prterun-box-28@1,1]
   Exit code:    3
"""
MPIRUN_SIGNAL = (
    "prterun noticed that process rank 0 with PID 2356 on node box exited on signal 11 (Segmentation fault)."
)


def ended(*codes: int | None, **other: Any) -> ExitReport:
    statuses = [
        None if code is None else CommandStatus(code=code) if code >= 0 else CommandStatus(signal=-code)
        for code in codes
    ]
    return ExitReport(cause="ended", statuses=statuses, started_ns=0, ended_ns=1, **other)


def judge(report: ExitReport, *failures: RankFailure, launcher: bool = False, **logs: str) -> Ending:
    named = {name.removeprefix("rank"): text for name, text in logs.items()}
    return describe_ending(report, launcher, 2, failures, named, "rank 0 after 7 steps")


def said(rank: int, reason: str, message: str) -> RankFailure:
    return RankFailure(rank=rank, reason=reason, message=message)


def test_all_well() -> None:
    assert judge(ended(0, 0)) == Ending(None, "", {"0": 0, "1": 0})
    assert judge(ended(0), launcher=True) == Ending(None, "", {"0": 0, "1": 0, "launcher": 0})


def test_the_kernel_counted_a_kill_for_memory() -> None:
    assert judge(ended(-15, -9)).reason is FailedReason.rank_killed
    found = judge(ended(-15, -9, oom_kills=1))
    assert (found.reason, found.message) == (
        FailedReason.out_of_memory,
        "rank 1 was killed by the kernel, out of memory (OOM kills: 1)",
    )
    assert judge(ended(137, -15, oom_kills=1)).reason is FailedReason.out_of_memory, "137 is a shell's SIGKILL"


def test_a_killed_rank_comes_before_its_peers_complaints() -> None:
    found = judge(ended(1, -9), said(0, "RankFailed", "connection reset by peer"))
    assert (found.reason, found.message) == (FailedReason.rank_killed, "rank 1 was ended by SIGKILL")


class Ends(Supervisor):
    """A supervisor of ranks that end one by one in an order; those with no status of their own wait for SIGKILL."""

    def __init__(self, order: Sequence[int], codes: Mapping[int, int]) -> None:
        super().__init__({"commands": [{}] * len(order)})
        self.coming, self.codes, self.arrived = list(order), codes, list[int]()
        self.pids = {100 + rank: rank for rank in order}

    def listen(self, seconds: float) -> None:
        if self.coming and self.coming[0] in self.codes:
            self.arrived.append(self.coming.pop(0))
        self.reap()

    def waitpid(self, *_: int) -> tuple[int, int]:
        if not self.arrived:
            return 0, 0
        code = self.codes.get(rank := self.arrived.pop(), -9)
        return 100 + rank, code << 8 if code >= 0 else -code

    def send(self, pids: list[int], number: int) -> list[int]:
        if number == signal.SIGKILL:
            self.arrived, self.coming = self.coming, []
        return []

    def report(self, monkeypatch: pytest.MonkeyPatch, grace: float) -> ExitReport:
        monkeypatch.setattr(os, "waitpid", self.waitpid)
        monkeypatch.setattr(supervisor, "send", self.send)
        monkeypatch.setattr(supervisor, "descendants", lambda _: [100 + rank for rank in self.coming])
        self.listen(0)
        self.end_tree(grace, succeeded=False)
        statuses: list[CommandStatus | None] = [CommandStatus.model_validate(status) for status in self.statuses]
        killed = sorted(self.killed)
        return ExitReport(cause="ended", statuses=statuses, started_ns=0, ended_ns=1, killed=killed)


@pytest.mark.parametrize("first", [(0, 2), (2, 0)])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_killed_rank_is_the_reason_whoever_ends_or_speaks_first(
    order: tuple[int, ...], first: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Ends(order, {0: 1, 1: -9, 2: 1}).report(monkeypatch, math.inf)
    failures = [said(rank, "RankFailed", "connection reset by peer") for rank in first]
    found = describe_ending(report, False, 3, failures, {}, "")
    assert (found.reason, found.message) == (FailedReason.rank_killed, "rank 1 was ended by SIGKILL")
    assert found.exit_codes == {"0": 1, "1": -9, "2": 1}


@pytest.mark.parametrize("others", [(0, 2), (2, 0)])
def test_peers_that_had_to_be_killed_are_not_the_reason(
    others: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Ends([1, *others], {1: 3}).report(monkeypatch, 0)
    assert report.killed == [0, 2]
    found = describe_ending(report, False, 3, [], {}, "")
    assert found == Ending(
        FailedReason.rank_failed, "rank 1 exited with code 3, and printed nothing", {"0": -9, "1": 3, "2": -9}
    )
    spoken = describe_ending(report, False, 3, [said(1, "RankFailed", "bad batch")], {}, "")
    assert (spoken.reason, spoken.message) == (FailedReason.rank_failed, "rank 1: bad batch")


def test_a_rank_that_was_killed_comes_before_peers_that_had_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Ends([1, 0, 2], {1: -9}).report(monkeypatch, 0)
    assert describe_ending(report, False, 3, [], {}, "").message == "rank 1 was ended by SIGKILL"
    report = Ends([1, 0, 2], {1: -15}).report(monkeypatch, 0)
    assert describe_ending(report, False, 3, [], {}, "").message == "rank 1 was ended by SIGTERM"


def test_a_ranks_word_on_memory_comes_before_aborts_it_caused() -> None:
    found = judge(ended(1, -6), said(0, "OutOfMemory", "CUDA out of memory"))
    assert (found.reason, found.message) == (FailedReason.out_of_memory, "rank 0: CUDA out of memory")


def test_a_ranks_word_comes_before_the_abort_of_another() -> None:
    found = judge(ended(1, -6), said(0, "RankFailed", "bad batch"))
    assert (found.reason, found.message) == (FailedReason.rank_failed, "rank 0: bad batch")


def test_the_first_to_speak_is_believed_and_unknown_words_are_a_failed_rank() -> None:
    found = judge(ended(1, 1), said(1, "Strange", "first"), said(0, "RankFailed", "second"))
    assert (found.reason, found.message) == (FailedReason.rank_failed, "rank 1: first")


def test_a_traceback_of_memory_is_read_from_the_log() -> None:
    found = judge(ended(1, -15), rank0="Traceback\ntorch.OutOfMemoryError: CUDA out of memory. Tried\nmore\n")
    assert found.message == "rank 0: torch.OutOfMemoryError: CUDA out of memory. Tried"


def test_torchrun_says_which_rank() -> None:
    found = judge(ended(1), launcher=True, launcher_=TORCHRUN)
    assert found.exit_codes == {"0": None, "1": None, "launcher": 1}
    found = describe_ending(ended(1), True, 2, (), {"launcher": TORCHRUN}, "")
    assert found == Ending(FailedReason.rank_killed, "rank 1 was ended by SIGKILL", {"0": None, "1": -9, "launcher": 1})


def test_mpirun_says_which_rank() -> None:
    logs = {"1": "oh\ndear\n\n", "launcher": MPIRUN}
    found = describe_ending(ended(3), True, 2, (), logs, "")
    assert (found.message, found.exit_codes["1"]) == ("rank 1 exited with code 3: dear", 3)
    found = describe_ending(ended(139), True, 2, (), {"launcher": MPIRUN_SIGNAL}, "")
    assert (found.reason, found.message) == (FailedReason.rank_killed, "rank 0 was ended by SIGSEGV")


def test_a_launcher_that_says_nothing_of_ranks() -> None:
    found = describe_ending(ended(2), True, 2, (), {"launcher": "no such option\n"}, "")
    assert (found.reason, found.message) == (
        FailedReason.rank_failed,
        "the launcher exited with code 2: no such option",
    )


def test_a_silent_launcher_leaves_the_word_to_a_rank() -> None:
    found = describe_ending(ended(2), True, 2, (), {"launcher": "\n", "0": "", "1": "usage\nKeyError\n"}, "")
    assert "rank 1" in found.message
    assert found.message.endswith("KeyError")


@pytest.mark.parametrize(("part", "hint"), [*ending._HINTS, ("KeyError", "")])
def test_a_last_line_that_is_known_gets_what_to_do(part: str, hint: str) -> None:
    message = describe_ending(ended(1, 0), False, 2, (), {"0": f"Traceback\n{part}\n"}, "").message
    assert message.endswith(f": {part}{hint}")


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        ("deadline", FailedReason.deadline_exceeded, "rank 0 after 7 steps"),
        ("start-failed", FailedReason.start_failed, "could not be started: why"),
        ("supervisor-lost", FailedReason.rank_killed, "why"),
    ],
)
def test_causes_of_the_engine(cause: Any, reason: FailedReason, message: str) -> None:
    report = ended(None, -15).model_copy(update={"cause": cause, "message": "why"})
    assert judge(report) == Ending(reason, message, {"0": None, "1": -15})


def test_codes_of_plain_processes_are_their_own() -> None:
    assert exit_codes(ended(0, -15, None), False, 3, "") == {"0": 0, "1": -15, "2": None}


def test_ends_of_logs(tmp_path: Path) -> None:
    log = Within(tmp_path) / "log"
    assert end_of_log(log) == ""
    log.write(b"first\nsecond \xff\nthird\n")
    assert end_of_log(log) == "first\nsecond \ufffd\nthird\n"
    assert end_of_log(log, 10) == "third\n"
    assert tail("\n".join(map(str, range(99))))[0] == "59"
    assert len(tail("x" * 9999)[0]) == 500
