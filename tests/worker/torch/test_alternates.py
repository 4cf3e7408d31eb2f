"""Peak memory beside a second model, and the state that is put back after steps without communication."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from scalecurve_worker.torch.alternates import NoSync, PeakMemory, Plain  # noqa: E402

MIB = 1 << 20


def trainer_of(device: str, elements: int) -> Any:
    """A trainer of one vector; a step adds its gradient, which takes as much."""
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.zeros(elements, device=device))
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0, momentum=0.9)

    def update(_: Any, communicate: bool = True) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = module.weight.sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    wrapped = SimpleNamespace(module=module, optimizer=optimizer, exposed="no-sync")
    return SimpleNamespace(wrapped=wrapped, optimizer=optimizer, update=update, scaler=None)


def test_the_second_models_weights_are_not_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = trainer_of("cpu", MIB)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 100 * MIB + 4 * MIB)
    memory = PeakMemory(torch.device("cuda"))
    Plain(twin, memory).enter()
    assert memory.bytes() == 100 * MIB


@pytest.mark.gpu
def test_peak_memory_of_the_measured_model_alone() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, and torch sees none here")
    device = torch.device("cuda", 0)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    trainer = trainer_of("cuda", 16 * MIB)
    memory = PeakMemory(device)
    trainer.update(())
    alone = memory.bytes() - before
    assert alone >= 3 * 64 * MIB
    plain = Plain(trainer_of("cuda", 16 * MIB), beside := PeakMemory(device))
    for _ in range(2):
        trainer.update(())
        plain.enter()
        plain.update([])
        plain.leave()
    trainer.update(())
    assert abs(beside.bytes() - before - alone) < MIB


@pytest.mark.gpu
def test_a_trace_has_the_kernels_of_the_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, and torch sees none here")
    from scalecurve_api.spec.measure import Measure, TraceOptions
    from scalecurve_worker.torch.explain.trace import Trace

    left = torch.randn(1024, 1024, device="cuda")
    trace = Trace(torch.device("cuda", 0), Measure(trace=TraceOptions(steps=2)))
    trace.begin(2)
    for _ in range(2):
        left.mm(left)
    torch.cuda.synchronize()
    trace.end(10**9)
    assert trace._found is not None
    (product,) = (row for row in trace._found.kernels if row.name == "matrix product")
    assert product.calls == 2
    assert trace.problem is not None
    assert "NCCL" in trace.problem


@pytest.mark.gpu
def test_state_is_kept_in_pinned_memory_and_put_back() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, and torch sees none here")
    trainer = trainer_of("cuda", MIB)
    trainer.update(())
    weight, address = trainer.wrapped.module.weight.detach().clone(), trainer.wrapped.module.weight.data_ptr()
    beside = NoSync(trainer, PeakMemory(torch.device("cuda", 0)))
    beside.enter()
    assert all(each.is_pinned() for each in beside._kept)
    held = torch.cuda.memory_allocated()
    beside.update([])
    assert not torch.equal(trainer.wrapped.module.weight, weight)
    beside.leave()
    assert torch.equal(trainer.wrapped.module.weight, weight)
    assert trainer.wrapped.module.weight.data_ptr() == address
    assert torch.cuda.memory_allocated() <= held
