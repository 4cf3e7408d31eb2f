from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_api.contract import failure_file
from scalecurve_api.record.rank import RankFailure
from scalecurve_worker.process import failure as module
from scalecurve_worker.process.failure import WorkloadError, explain, write_failure


@pytest.fixture(autouse=True)
def not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test of this process may have called `finish`."""
    monkeypatch.setattr(module, "_finished", False)


def test_the_first_failure_stays(tmp_path: Path) -> None:
    write_failure(tmp_path, explain(1, WorkloadError("workload.model: no such model")))
    write_failure(tmp_path, explain(1, RuntimeError("a consequence")))
    failure = RankFailure.model_validate_json((tmp_path / failure_file(1)).read_text())
    assert (failure.reason, failure.message) == ("BadWorkload", "workload.model: no such model")


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (MemoryError("too much"), "OutOfMemory", "MemoryError: too much (a smaller scaling.batch needs less)"),
        (MemoryError(), "OutOfMemory", "MemoryError (a smaller scaling.batch needs less)"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes"), "OutOfMemory", None),
        (RuntimeError("one\n  two"), "RankFailed", "RuntimeError: one two"),
        (WorkloadError("scaling.batch: 3"), "BadWorkload", "scaling.batch: 3"),
    ],
)
def test_errors_are_told_apart(error: Exception, reason: str, message: str | None) -> None:
    failure = explain(0, error)
    assert failure.reason == reason
    assert message is None or failure.message == message


def test_torch_out_of_memory_is_out_of_memory() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert explain(0, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")).reason == "OutOfMemory"


@pytest.mark.parametrize(
    ("variable", "error", "waits"),
    [
        ("OMPI_COMM_WORLD_RANK", RuntimeError("rank 0 of 2: lost rank 1: connection closed"), True),
        ("OMPI_COMM_WORLD_RANK", RuntimeError("[gloo] Connection closed by peer [10.0.0.2]:3"), True),
        ("OMPI_COMM_WORLD_RANK", OSError(28, "No space left on device"), False),
        ("RANK", RuntimeError("rank 0 of 2: lost rank 1: connection closed"), False),
    ],
)
def test_under_mpirun_a_rank_that_lost_another_ends_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, error: Exception, waits: bool
) -> None:
    """Seen on busy nodes: mpirun noticed rank 0's end before rank 1's kill, which it then did not report."""
    slept: list[float] = []
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setenv(variable, "0")
    monkeypatch.setattr(module.time, "sleep", slept.append)
    module.report(tmp_path, 0, error)
    assert (tmp_path / failure_file(0)).exists(), "the reason is kept before the wait"
    assert bool(slept) is waits
