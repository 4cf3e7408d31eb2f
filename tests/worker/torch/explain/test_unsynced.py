"""When steps without communication are refused, and how much memory their copy may take."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from scalecurve_worker.torch.explain import unsynced  # noqa: E402
from scalecurve_worker.torch.explain.unsynced import available_memory, state_tensors, why_not  # noqa: E402


def files(tmp_path: Path, free_kib: int, limit: str | None = None, used: int = 0) -> tuple[Path, Path]:
    proc = tmp_path / "meminfo"
    proc.write_text(f"MemTotal: 1000 kB\nMemAvailable: {free_kib} kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
    return proc, tmp_path


def test_memory_is_the_machines_or_the_containers(tmp_path: Path) -> None:
    assert available_memory(*files(tmp_path, 500)) == 500 * 1024
    assert available_memory(*files(tmp_path, 500, "max", 100)) == 500 * 1024
    assert available_memory(*files(tmp_path, 500, "300000", 100_000)) == 200_000
    assert available_memory(tmp_path / "absent", tmp_path) == 0


def trained(model: Any, further: Any = ()) -> Any:
    optimizer = torch.optim.Adam([*model.parameters(), *further], lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return optimizer


def test_every_tensor_that_a_step_changes_is_kept_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model[1].weight = torch.nn.Parameter(model[0].bias.data.clone())
    model.eval()
    optimizer = trained(model)
    # 4 parameters and 3 buffers; two moments and a count for each parameter.
    assert len(state_tensors(model, [optimizer])) == 4 + 3 + 4 * 3
    assert len(state_tensors(model, [optimizer, optimizer])) == 4 + 3 + 4 * 3


def test_what_cannot_be_put_back_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = trained(model)
    assert why_not(model, [optimizer]) is None
    another = trained(model, further=torch.nn.Linear(1, 1).parameters())
    assert "parameters outside of the model" in str(why_not(model, [another]))
    monkeypatch.setattr(unsynced, "available_memory", lambda: 100.0)
    assert "does not fit the free memory" in str(why_not(model, [optimizer]))
    sharded: Any = type("ZeroRedundancyOptimizer", (SimpleNamespace,), {})(param_groups=[], state={})
    assert "broadcasts of ZeroRedundancyOptimizer" in str(why_not(model, [sharded]))
