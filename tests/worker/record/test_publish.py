from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch.distributed as dist

import scalecurve_worker as scalecurve
from scalecurve_api.record.envelope import unseal
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.rank import RankFailure
from scalecurve_worker.process.failure import WorkloadError, explain
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.rendezvous.communicator import Communicator, SingleProcess, find_communicator
from scalecurve_worker.rendezvous.tcp import CommunicatorError
from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
from tests.worker.worker_ranks import make_trial

TRIAL = make_trial()


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process as the one rank of the one pod of a trial."""
    monkeypatch.setenv("SCALECURVE_TRIAL", TRIAL.model_dump_json(by_alias=True))
    monkeypatch.setenv("SCALECURVE_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("SCALECURVE_PODS", "1")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    return tmp_path


def run() -> None:
    bench = scalecurve.attach()
    while bench.step(4):
        pass
    bench.finish()


def test_what_does_not_fit_the_budget_is_left_out(
    pod: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCALECURVE_RECORD_BYTES", "1")
    run()
    found = unseal(unframe(capfd.readouterr().out.splitlines()))
    assert (found.attempt, list(found.ranks), dict(found.journals)) == (1, [0], {})
    assert found.left_out == ("step journals of ranks 0 (0.0 MB)",)


def test_a_claim_that_cannot_be_written_costs_no_record(
    pod: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (pod / "file").write_text("")
    monkeypatch.setenv("SCALECURVE_RESULTS", str(pod / "file" / "claim"))
    run()
    said = capfd.readouterr()
    assert list(unseal(unframe(said.out.splitlines())).journals) == [0]
    assert "file/claim: cannot be written: Not a directory" in said.err


def test_a_budget_that_is_none(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_RECORD_BYTES", "much")
    with pytest.raises(WorkloadError, match="SCALECURVE_RECORD_BYTES='much': expected a whole number"):
        run()


def test_outside_of_a_pod_nothing_is_printed(
    pod: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCALECURVE_PODS")
    run()
    assert capfd.readouterr().out == ""


def test_pods_share_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_PODS", "2")
    with pytest.raises(CommunicatorError, match="ranks of several pods need torch"):
        find_communicator(RankIdentity(1, 2, 0), tmp_path)


def test_bytes_above_what_a_store_takes_at_once_are_gathered() -> None:
    data = bytes(range(256)) * 14_000
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for ranks in (TorchCommunicator(), SingleProcess()):
            both: Communicator = ranks
            assert both.gather(data) == [data]
            assert both.gather(b"") == [b""]
    finally:
        dist.destroy_process_group()


def test_a_failure_with_a_name_that_is_no_text_can_be_written() -> None:
    failure = explain(0, FileNotFoundError(2, "missing", "data/\udcff.bin"))
    assert "data/" in failure.message
    assert RankFailure.model_validate_json(failure.model_dump_json()) == failure
