"""Processes that judge records: whatever a record does to one, the operator gets an answer within limits."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.crds.status import TrialStatus
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.record.envelope import seal
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.cache.cached_objects import CachedTrial
from scalecurve_operator.reconcile import judge_process
from scalecurve_operator.reconcile.judge import SIZES, Judgment, judge_payload
from scalecurve_operator.reconcile.judge_process import (
    LARGE,
    SMALL,
    JudgeProcess,
    Judges,
    JudgeUnavailableError,
    Limits,
)
from scalecurve_operator.status.render import AttemptResult, claimed, ended
from tests.operator.attempt_remains import announced, experiment, payload_of, ranks_of
from tests.operator.hostile import BOMBS
from tests.waiting import PATIENCE_S, eventually

TRIAL = next(trial for trial in make_plan(experiment()).trials if trial.point.workers == 2)
OUTCOME = Outcome(engine="kubernetes")
GOOD = payload_of(TRIAL, "job")
SUMMARY = Summary.model_validate(json.loads(announced(TRIAL, GOOD))["summary"])
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may take long to start; one that never answers is for a test that says so."""
    monkeypatch.setattr(judge_process, "_WALL_S_PER_CPU_S", PATIENCE_S)


@pytest.fixture
def judges() -> Iterator[Judges]:
    made = Judges()
    yield made
    made.close()


def judged(judges: Judges, payload: bytes, summary: Summary | None = None) -> Judgment:
    return asyncio.run(judges.judge(TRIAL, payload, OUTCOME, summary))


def pid(process: JudgeProcess) -> int | None:
    """Of a process that runs."""
    running = process.process
    return running.pid if running is not None and running.poll() is None else None


def running(process: int) -> bool:
    try:
        return "Z (zombie)" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def peak_mib(process: int) -> float:
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def test_a_process_answers_as_the_function_does(judges: Judges) -> None:
    for payload in (GOOD, payload_of(TRIAL, "job", attempt=2), b"", GOOD[:50]):
        assert judged(judges, payload, SUMMARY) == judge_payload(TRIAL, payload, OUTCOME, SUMMARY)
    assert judged(judges, GOOD, SUMMARY).verdict.phase is TrialPhase.succeeded


def test_what_a_program_did_not_show_reaches_the_status(judges: Judges) -> None:
    """No record of these ranks has a proof: a trial of the user's own program is unproved, and in no headline."""
    custom = CustomWorkload.model_validate({"program": "custom", "command": ["python", "train.py"]})
    trial = TRIAL.model_copy(update={"workload": custom})
    judgment = asyncio.run(judges.judge(trial, payload_of(trial, "job"), OUTCOME, None))
    assert judgment.verdict.phase is TrialPhase.succeeded
    assert {"NoCommunication", "SameData"} <= set(judgment.unproved)
    assert judged(judges, GOOD).unproved == ()
    record = {"sha256": "0" * 64, "bytes": 1}
    result = AttemptResult(judgment.verdict, SUMMARY.wire(), record, (), 0.0, judgment.unproved)
    status = ended(claimed({}, 1, "t-a1", 0.0), 1, result, "u")
    assert TrialStatus.model_validate(status).unproved == list(judgment.unproved)
    assert status["message"].startswith("unproved: NoCommunication, SameData")
    metadata = {"uid": "u", "resourceVersion": "1", "name": "t", "namespace": "n"}
    assert CachedTrial.from_body({"metadata": metadata, "status": status}, None).throughput is None
    assert "unproved" not in claimed(status, 2, "t-a2", 0.0)


def test_the_process_for_small_records_stays_and_that_for_large_ones_does_not(
    judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(judges, GOOD)
    first = pid(judges.small)
    judged(judges, GOOD)
    assert first is not None
    assert pid(judges.small) == first
    monkeypatch.setattr(judge_process, "SMALL_HEAD_BYTES", 0)
    assert judged(judges, GOOD).verdict.phase is TrialPhase.succeeded
    assert judges.large.process is not None
    assert judges.large.process.poll() is not None


@pytest.mark.parametrize("summary", [SUMMARY, None])
def test_one_process_judges_one_small_record_after_the_other(judges: Judges, summary: Summary | None) -> None:
    judged(judges, GOOD)
    first = pid(judges.small)
    for _ in range(20):
        judged(judges, GOOD, summary)
    assert pid(judges.small) == first is not None


def test_one_that_was_killed_is_replaced_and_the_record_judged(judges: Judges) -> None:
    judged(judges, GOOD)
    killed = pid(judges.small)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert judged(judges, GOOD).verdict.phase is TrialPhase.succeeded
    assert judged(judges, GOOD).verdict.phase is TrialPhase.succeeded
    assert pid(judges.small) not in (killed, None)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_the_operator_no_memory(judges: Judges, name: str) -> None:
    payload = BOMBS[name](TRIAL.name)
    assert len(payload) < 5 * MIB
    asyncio.run(judges.start())
    before = peak_mib(os.getpid())
    judgment = judged(judges, payload)
    assert (judgment.verdict.phase, judgment.verdict.reason) == (TrialPhase.invalid, "RecordsUnreadable")
    assert judgment.unreadable
    assert peak_mib(os.getpid()) - before < 20
    assert judged(judges, GOOD).verdict.phase is TrialPhase.succeeded, "and the next is judged"


def test_too_little_memory_is_said_and_more_is_tried() -> None:
    """A record that needs more than the one process has is judged in the other."""
    judges = Judges(small=Limits(48 * MIB, 4, stays=True), large=LARGE)
    ranks = ranks_of(TRIAL, "job")
    wide = {rank: record.model_copy(update={"options": {"a": ["x" * 9] * 500_000}}) for rank, record in ranks.items()}
    payload = seal(TRIAL.name, 1, wide, {}, 1 << 30)
    try:
        assert judged(judges, payload).verdict.phase is TrialPhase.succeeded
        little = Judges(small=Limits(48 * MIB, 4, stays=True), large=Limits(48 * MIB, 4, stays=False))
        judgment = judged(little, payload)
        assert judgment.verdict.reason == "RecordsUnreadable"
        assert "within 48 MiB" in judgment.verdict.message
        little.close()
    finally:
        judges.close()


def test_too_much_processor_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    judges = Judges(small=Limits(256 * MIB, 1, stays=True), large=LARGE)
    judged(judges, GOOD)
    process = pid(judges.small)
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    # Held back until it goes on, with its request.
    os.kill(process, signal.SIGXCPU)

    def receive(size: int) -> bytes:
        os.kill(process, signal.SIGCONT)
        return JudgeProcess._receive(judges.small, size)

    monkeypatch.setattr(judges.small, "_receive", receive)
    judgment = judged(judges, GOOD)
    judges.close()
    assert judgment.verdict.reason == "RecordsUnreadable"
    assert judgment.verdict.message.endswith("takes more than 1 s")


def test_no_record_is_unreadable_because_the_machine_is_busy() -> None:
    """A process that gets no processor time says nothing about its record, which is judged again later."""
    judges = Judges(small=Limits(256 * MIB, 60, stays=True), large=LARGE)
    judged(judges, GOOD)
    process = pid(judges.small)
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    # Its time is up at once; what it has used to start is far less than it may.
    assert judges.small._connection is not None
    judges.small._connection.settimeout(0.1)
    with pytest.raises(JudgeUnavailableError, match="s of processor time"):
        judged(judges, GOOD)
    assert judged(judges, GOOD).verdict.phase is TrialPhase.succeeded
    judges.close()


def test_the_kernel_ends_what_computes_for_too_long() -> None:
    code = (
        "import socket, sys\n"
        "from scalecurve_operator.reconcile import judge\n"
        "def forever(request, payload):\n"
        "    while True: pass\n"
        "judge._answer = forever\n"
        "judge.main(256 << 20, 1)\n"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen([sys.executable, "-c", code], stdin=theirs.fileno())
        ours.sendall(SIZES.pack(2, 0) + b"{}")
        assert process.wait(PATIENCE_S) == -signal.SIGXCPU


def test_a_summary_that_is_not_the_records_makes_it_invalid(judges: Judges) -> None:
    for changes in ({"throughput": 999.0}, {"samples": 1}, {"wall_s": 1e9}):
        judgment = judged(judges, GOOD, SUMMARY.model_copy(update=changes))
        assert judgment.verdict.reason == "RecordsUnreadable"
        assert "contradicts the record" in judgment.verdict.message
    dressed_up = SUMMARY.model_copy(update={"mfu": 0.9, "best_accuracy": 1.0})
    assert judged(judges, GOOD, dressed_up).summary == SUMMARY.wire(), "the record's is shown"
    rounded = SUMMARY.model_copy(update={"throughput": SUMMARY.throughput * (1 + 1e-9)})
    assert judged(judges, GOOD, rounded).verdict.phase is TrialPhase.succeeded


def test_an_operator_that_is_killed_leaves_no_process() -> None:
    code = (
        "import asyncio, os\n"
        "from scalecurve_operator.reconcile.judge_process import Judges\n"
        "judges = Judges()\n"
        "asyncio.run(judges.start())\n"
        "print(judges.small.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    left = int(done.stdout)
    eventually(lambda: not running(left), "the end of a process that nobody can ask any more")


def test_without_processes_nothing_is_judged(judges: Judges, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(judge_process.subprocess, "Popen", refuse)
    with pytest.raises(JudgeUnavailableError, match="Resource temporarily unavailable"):
        judged(judges, GOOD)
    assert SMALL.memory_bytes + LARGE.memory_bytes + 120 * MIB <= 512 * MIB, "the chart's limit"


def test_a_truncated_opening_is_answered(judges: Judges) -> None:
    for payload in (struct.pack("<8sI", b"SBENVEL1", 2**31), struct.pack("<8sI", b"SBENVEL1", 3) + zlib.compress(b"")):
        assert judged(judges, payload).verdict.reason == "RecordsUnreadable"
