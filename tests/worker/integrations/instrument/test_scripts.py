"""Scripts that know nothing of ScaleCurve, run by real ranks: what is counted, checked and said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import CORES_ENV, INSTRUMENT_ENV, failure_file, rank_file
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.journal import ROW, StepRow, body
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankFailure, RankRecord
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.proofs import unproved_at_any_load
from tests.worker.forked_ranks import fork_ranks, rendezvous
from tests.worker.pods import CORES
from tests.worker.ports import free_port
from tests.worker.worker_ranks import launch, make_trial, records, torchrun

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(len(CORES) < 2, reason="two ranks need a core each, this machine gives one"),
]

SHAPES = Path(__file__).parent / "scripts" / "shapes.py"
FORKED = SHAPES.with_name("forked.py")
QUIET = {"maxForeignLoad": 1.0, "warmupSteps": 4, "maxWarmupSteps": 4, "windows": 2, "stepsPerWindow": 7}


def run(out: Path, shape: str, workers: int = 1, fails: bool = False, **environment: str) -> Any:
    """The ranks of a script, as an engine starts them."""
    command = [sys.executable, str(SHAPES), shape]
    trial = make_trial(workers, workload={"program": "custom", "command": command}, measure=QUIET)
    ranks = [sys.executable, "-m", "scalecurve_worker", *command]
    if workers > 1:
        ranks = torchrun(workers, "--no-python", *ranks)
    cores = ";".join(str(CORES[rank % len(CORES)]) for rank in range(workers))
    more = {INSTRUMENT_ENV: "auto", CORES_ENV: cores, **environment}
    return trial, launch(out, ranks, trial, fails=fails, **more)


def fork(out: Path, shape: str, workers: int = 1, fails: bool = False) -> tuple[TrialSpec, str]:
    """The same in ranks that have loaded torch already, and what they printed."""
    trial = make_trial(workers, workload={"program": "custom", "command": [str(SHAPES), shape]}, measure=QUIET)
    cores = ";".join(str(CORES[rank % len(CORES)]) for rank in range(workers))
    more = {INSTRUMENT_ENV: "auto", CORES_ENV: cores, **rendezvous()}
    return trial, fork_ranks(out, workers, FORKED, str(SHAPES), shape, trial=trial, fails=fails, **more)


def judged(trial: Any, out: Path) -> TrialRecord:
    ranks = dict(enumerate(records(out, trial.point.workers)))
    journals = {rank: (out / f"rank-{rank}.steps").read_bytes() for rank in ranks}
    return assemble(trial, ranks, journals, Outcome(engine="local")).record


def counted(record: RankRecord) -> list[tuple[int, int]]:
    return [(window.steps, window.samples) for window in record.windows if window.kind.value == "train"]


def started(out: Path, shape: str, workers: int) -> tuple[TrialSpec, str]:
    """One shape as an engine starts it, the others in ranks by fork."""
    if shape != "images":
        return fork(out, shape, workers)
    trial, done = run(out, shape, workers)
    return trial, done.stdout + done.stderr


@pytest.mark.parametrize("shape", ["images", "tokens", "ahead", "sharded"])
def test_a_distributed_script_is_measured_and_proved(tmp_path: Path, shape: str) -> None:
    trial, printed = started(tmp_path, shape, 2)
    record = judged(trial, tmp_path)
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert unproved_at_any_load(record) == ()
    assert record.strategy == ("FSDPModule" if shape == "sharded" else "DistributedDataParallel")
    assert [counted(rank) for rank in records(tmp_path, 2)] == [[(7, 28), (7, 28)]] * 2
    if shape == "images":
        assert printed.count("the script's finally block") == 2


@pytest.mark.parametrize("shape", ["images", "tokens", "gan", "sequence_first"])
def test_one_worker(tmp_path: Path, shape: str) -> None:
    trial, printed = started(tmp_path, shape, 1)
    record = judged(trial, tmp_path)
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert counted(records(tmp_path, 1)[0]) == [(7, 28), (7, 28)]
    evaluates = shape in ("images", "tokens")
    assert ("s of evaluation between steps" in printed) == evaluates
    assert any("s of evaluation between steps is in no window" in check.detail for check in record.checks) == evaluates


def test_an_update_that_was_left_out_has_no_samples(tmp_path: Path) -> None:
    fork(tmp_path, "overflow")
    rows = list(ROW.iter_unpack(body((tmp_path / "rank-0.steps").read_bytes())))
    samples = [StepRow(*row).samples for row in rows]
    assert [at % 4 for at, count in enumerate(samples) if count == 0] == [2] * 6
    assert set(samples) == {0, 4}


def test_a_script_that_catches_its_end(tmp_path: Path) -> None:
    trial, _ = fork(tmp_path, "stubborn")
    assert judged(trial, tmp_path).phase is TrialPhase.succeeded


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        ("short", "shapes.py ended after 5 optimizer steps, before every window was measured: it needs about 25; "),
        ("still", "shapes.py ended without an optimizer step of torch, so there was nothing to time: "),
        ("uncounted", "the samples of a step of shapes.py cannot be counted: "),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(tmp_path: Path, shape: str, line: str) -> None:
    _, printed = fork(tmp_path, shape, fails=True)
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    assert (failure.reason, failure.message[: len(line)]) == ("BadWorkload", line)
    assert printed.strip().splitlines()[-1] == f"scalecurve: rank 0: {failure.message}"


def test_an_error_of_the_script_is_its_own(tmp_path: Path) -> None:
    fork(tmp_path, "failing", fails=True)
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    assert (failure.reason, failure.message) == ("RankFailed", "RuntimeError: the disk of the checkpoints is full")


def test_a_script_that_attaches_takes_over(tmp_path: Path) -> None:
    trial, printed = fork(tmp_path, "attached", 2)
    assert judged(trial, tmp_path).phase is TrialPhase.succeeded
    assert [counted(rank) for rank in records(tmp_path, 2)] == [[(7, 28), (7, 28)]] * 2
    assert printed.count("after finish()") == 2


def test_a_script_that_starts_its_own_ranks(tmp_path: Path) -> None:
    trial, done = run(tmp_path, "spawns", 2, OWN_PORT=str(free_port()), OWN_RANKS="2")
    record = judged(trial, tmp_path)
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert [counted(rank) for rank in records(tmp_path, 2)] == [[(7, 28), (7, 28)]] * 2
    assert done.stdout.count("all ranks have ended") == 1


@pytest.mark.parametrize(("own", "line"), [("1", "starts 1 rank of its own"), ("3", "starts 3 ranks of its own")])
def test_a_script_that_starts_another_number_of_ranks(tmp_path: Path, own: str, line: str) -> None:
    _, done = run(tmp_path, "spawns", 2, fails=True, OWN_PORT=str(free_port()), OWN_RANKS=own)
    assert f"shapes.py {line} (torch.multiprocessing) at a point with 2 on a node: pass" in done.stderr
    assert not (tmp_path / rank_file(0)).exists()
