from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_api.contract import failure_file
from scalecurve_api.record.rank import RankFailure
from scalecurve_worker.process.failure import WorkloadError, explain, write_failure


def test_the_first_failure_stays(tmp_path: Path) -> None:
    write_failure(tmp_path, explain(1, WorkloadError("workload.model: no such model")))
    write_failure(tmp_path, explain(1, RuntimeError("a consequence")))
    failure = RankFailure.model_validate_json((tmp_path / failure_file(1)).read_text())
    assert (failure.reason, failure.message) == ("BadWorkload", "workload.model: no such model")


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (MemoryError("too much"), "OutOfMemory", "MemoryError: too much"),
        (MemoryError(), "OutOfMemory", "MemoryError"),
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
