"""Real scripts on two real ranks: what they show of having been one training job, and what is made of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.checks.proof import PROOF, unproved
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import TrialRecord
from tests.proofs import unproved_at_any_load
from tests.waiting import PATIENCE_S
from tests.worker.forked_ranks import fork_ranks, rendezvous
from tests.worker.test_processes import ranks
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial, records, torchrun

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes
CUSTOM = {"program": "custom", "command": ["x"], "device": "cpu", "model": "resnet18"}
TRIAL = make_trial(2, workload=CUSTOM, measure={"maxForeignLoad": 1.0})
CASES = {
    # Two strangers on the same data, as MNIST's example in two processes.
    "strangers": "NoCommunication",
    "strangers-own-order": "NoCommunication",
    # Ranks that joined a group and forgot to wrap the model, as ImageNet's example on CPUs.
    "no-wrapper": "NoCommunication",
    "ddp": None,
    "manual": None,
    "fsdp": None,
    "same-data": "SameData",
    "no-step": "NotTrained",
    "no-backward": "NotTrained",
    "no-rate": "NotTrained",
    "decay": "NotTrained",
    "sleep": "NoCommunication",
    "scalar": "unproved: NoCommunication",
    # A rank that joins the sums and computes nothing.
    "lazy-rank": "unproved: SameData",
    "late": None,
    # Gradients are averaged while that is looked at first, and the model is made equal at the end.
    "early": "NoCommunication",
    # They are averaged whenever that is looked at, and in no timed window.
    "watched": "NoCommunication",
    # The same, but for one step of three.
    "every-third": "NoCommunication",
    "ten-times": "WrongSamples",
    "twice-on-one": "WrongSamples",
    "untimed": "UntimedWork",
    "untimed-once": "unproved: UntimedWork",
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[TrialRecord, str | None]]:
    """Every case, one after another in the same two processes."""
    out = tmp_path_factory.mktemp("proofs")
    fork_ranks(out, 2, SCRIPTS / "proofs.py", trial=TRIAL, CASES=" ".join(CASES), **rendezvous())
    return {case: result_of(out / case, untimed="UntimedWork" in (CASES[case] or "")) for case in CASES}


def ranks_apart(out: Path) -> dict[int, RankRecord]:
    """The ranks' records, as if an engine had given each rank a core of its own."""
    place = {rank: {"device": f"cpu:{rank}", "cores": [rank]} for rank in range(2)}
    return {
        rank: record.model_copy(update={"topology": record.topology.model_copy(update=place[rank])})
        for rank, record in enumerate(records(out, 2))
    }


def result_of(out: Path, untimed: bool = False) -> tuple[TrialRecord, str | None]:
    """The record of a trial, and why it does not count; None where it does. Load may feign untimed work."""
    record = assemble(TRIAL, ranks_apart(out), {}, Outcome(engine="local")).record
    open_questions = ", ".join(unproved(record) if untimed else unproved_at_any_load(record))
    return record, record.reason or (f"unproved: {open_questions}" if open_questions else None)


@pytest.mark.parametrize("case", CASES)
def test_scripts_of_anyone(judged: dict[str, tuple[TrialRecord, str | None]], case: str) -> None:
    record, result = judged[case]
    assert result == CASES[case], [check for check in record.checks if check.passed is not True]


def test_a_program_without_torch_is_unproved(tmp_path: Path) -> None:
    """``while bench.step(samples=8): time.sleep(0.02)`` on two ranks."""
    code = "import time, scalecurve_worker as s\nb = s.attach()\nwhile b.step(samples=4): time.sleep(.001)\nb.finish()"
    command = [sys.executable, "-c", code]
    with ranks(tmp_path, TRIAL, command) as started:
        assert [process.wait(PATIENCE_S) for process in started] == [0, 0]
    record, _ = result_of(tmp_path)
    assert record.phase == "Succeeded"
    assert unproved_at_any_load(record) == PROOF


def test_a_program_without_torch_can_show_that_it_trained(tmp_path: Path) -> None:
    code = (
        "import scalecurve_worker as s\nb = s.attach(checksum='before')\n"
        "for _ in b.steps([[int(__import__('os').environ['RANK'])] * 4]): pass\nb.finish('after')"
    )
    with ranks(tmp_path, TRIAL, [sys.executable, "-c", code]) as started:
        assert [process.wait(PATIENCE_S) for process in started] == [0, 0]
    assert result_of(tmp_path)[1] == "unproved: NoCommunication"


@pytest.mark.parametrize(("patch", "reason"), [("real() // 2", "WrongClock"), ("real()", None)])
def test_a_slow_clock_is_seen(tmp_path: Path, patch: str, reason: str | None) -> None:
    """Half the time at two workers, and an efficiency that nobody wonders about."""
    code = (
        f"import time; real = time.monotonic_ns; time.monotonic_ns = lambda: {patch}\n"
        "import scalecurve_worker as s\nb = s.attach(checksum='before')\n"
        "while b.step(samples=4): time.sleep(.03)\nb.finish('after')"
    )
    with ranks(tmp_path, TRIAL, [sys.executable, "-c", code]) as started:
        assert [process.wait(PATIENCE_S) for process in started] == [0, 0]
    assert result_of(tmp_path)[0].reason == reason


def test_by_hand_a_script_is_told_as_well(tmp_path: Path) -> None:
    measure = "5 windows of 50 steps"
    strangers = launch(tmp_path, torchrun(2, str(SCRIPTS / "proofs.py")), CASES="no-wrapper same-data").stdout
    assert strangers.count(measure) == 2
    exchanged, _, read = strangers.partition("scalecurve: ranks exchanged nothing while they were observed")
    assert measure in exchanged
    assert "scalecurve: ranks read the same samples" in read
