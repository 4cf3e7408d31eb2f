"""When steps without communication are refused, and how much memory their copy may take."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from scalecurve_worker.torch.explain import unsynced  # noqa: E402
from scalecurve_worker.torch.explain.kept_state import KeptState, NotKeptError, walk_state  # noqa: E402
from scalecurve_worker.torch.explain.unsynced import available_memory, state_of  # noqa: E402


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


def test_every_tensor_that_a_step_changes_is_found_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model[1].weight = torch.nn.Parameter(model[0].bias.data.clone())
    model.eval()
    optimizer = trained(model)
    # 4 parameters and 3 buffers; two moments and a count for each parameter.
    for roots in ([model, optimizer], [model, optimizer, optimizer]):
        assert sum(isinstance(each, torch.Tensor) for each in walk_state(roots)) == 4 + 3 + 4 * 3


def test_a_model_without_data_is_no_state() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = trained(model)
    size = state_of(model, [optimizer], None).size
    with FakeTensorMode():
        planned = torch.nn.Linear(64, 64)
    assert state_of(model, [optimizer], None).size == size
    assert planned.weight.shape == (64, 64)


def test_what_cannot_be_put_back_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = trained(model)
    assert state_of(model, [optimizer], None).size > 6 * 3 * 4
    another = trained(model, further=torch.nn.Linear(1, 1).parameters())
    with pytest.raises(NotKeptError, match="parameters outside of the model"):
        state_of(model, [another], None)
    optimizer.batches = iter([1, 2])
    with pytest.raises(NotKeptError, match="Adam holds a list_iterator, whose state cannot be copied"):
        state_of(model, [optimizer], None)
    del optimizer.batches
    monkeypatch.setattr(unsynced, "available_memory", lambda: 100.0)
    with pytest.raises(NotKeptError, match="does not fit the free memory"):
        state_of(model, [optimizer], None)
    sharded: Any = type("ZeroRedundancyOptimizer", (SimpleNamespace,), {})(param_groups=[], state={})
    with pytest.raises(NotKeptError, match="broadcasts of ZeroRedundancyOptimizer"):
        state_of(model, [sharded], None)


class Slots:
    """State without a dictionary."""

    __slots__ = ("values",)
    values: list[Any]


def test_everything_comes_back_in_place() -> None:
    slots = Slots()
    slots.values = [1, {2}]
    state = {
        "tensor": torch.ones(2),
        "array": numpy.ones(2),
        "queue": deque([1, 2], maxlen=2),
        "draws": random.Random(1),
        "numpy": numpy.random.default_rng(1),
        "torch": torch.Generator().manual_seed(1),
        "object": SimpleNamespace(steps=1, inner=slots),
    }
    tensor, kept = state["tensor"], KeptState([state])
    kept.keep()
    before = draws(state)
    kept.put_back()
    tensor.add_(1)
    state["tensor"] = torch.zeros(3)
    state["array"][:] = 7
    state["queue"].append(3)
    state["object"].steps, state["object"].new = 5, 1
    slots.values[1].add(3)
    slots.values = []
    state["later"] = 1
    kept.put_back()
    assert draws(state) == before
    assert state["tensor"] is tensor
    assert (tensor.tolist(), state["array"].tolist(), list(state["queue"])) == ([1, 1], [1, 1], [1, 2])
    assert (vars(state["object"]), slots.values) == ({"steps": 1, "inner": slots}, [1, {2}])
    assert "later" not in state


def draws(state: Any) -> list[float]:
    drawn = torch.rand(1, generator=state["torch"]).item()
    return [state["draws"].random(), state["numpy"].random(), drawn]
