from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from scalecurve_worker.torch.explain import step_flops  # noqa: E402
from scalecurve_worker.torch.explain.step_flops import StepCounter, StepFlops  # noqa: E402
from scalecurve_worker.torch.flops import FlopCountError, count_step_flops  # noqa: E402

MLP = 2 * 8 * (16 * 32 + 32 * 4)


@pytest.fixture
def counter() -> StepCounter:
    return StepCounter()


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def counted(counter: StepCounter, model: nn.Module, batch: torch.Tensor) -> StepFlops:
    counter.begin(model)
    model(batch).square().mean().backward()
    return counter.end()


def test_a_step_is_counted_as_on_the_meta_device(counter: StepCounter) -> None:
    model = mlp()
    result = counted(counter, model, torch.randn(8, 16))
    assert result == StepFlops(count_step_flops(model, torch.randn(8, 16)).total, "fp32")
    assert result.model == 3 * MLP - 2 * 8 * 16 * 32  # the first layer needs no gradient of its input


def test_attention_on_a_cpu_is_counted(counter: StepCounter) -> None:
    query = torch.randn(2, 3, 64, 16, requires_grad=True)
    counter.begin(None)
    nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    product = 2 * 2 * 3 * 64 * 64 * 16
    # Two products forward; backward computes the scores again, as every fused kernel's formula counts it.
    assert counter.end().model == 2 * product + 5 * product


def test_arithmetic_is_that_of_the_products(counter: StepCounter) -> None:
    model = mlp()
    counter.begin(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    assert counter.end().precision == "bf16"


def test_what_is_computed_again_is_not_the_models(counter: StepCounter) -> None:
    model, batch = mlp(), torch.randn(8, 16, requires_grad=True)
    counter.begin(model)
    checkpoint(model, batch, use_reentrant=False).square().mean().backward()
    result = counter.end()
    assert result.model == 3 * MLP
    # The last layer's product is not needed again: early stop leaves it out.
    assert 0 < result.recomputed <= MLP


def test_a_step_without_products(counter: StepCounter) -> None:
    counter.begin(None)
    torch.randn(4).sum()
    with pytest.raises(FlopCountError, match="no matrix product or convolution"):
        counter.end()


def test_a_program_that_compiles_is_counted_on_the_meta_device(
    counter: StepCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_flops, "compiles", lambda: True)
    model = mlp()
    counter.begin(model)
    for part in torch.randn(8, 16).chunk(2):
        model(part).square().mean().backward()
    assert counter.end() == StepFlops(3 * MLP - 2 * 8 * 16 * 32, "fp32", "counted on the meta device")
    assert not model._forward_pre_hooks
    counter = StepCounter()
    counter.begin(model)
    with pytest.raises(FlopCountError, match="was not called"):
        counter.end()
    counter = StepCounter()
    counter.begin(None)
    with pytest.raises(FlopCountError, match=r"pass it to attach\(\)"):
        counter.end()


def test_a_formula_that_fails_is_not_the_programs_error(counter: StepCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise AssertionError("inner dimensions")

    monkeypatch.setitem(step_flops.flop_registry, torch.ops.aten.bmm, broken)
    counter.begin(None)
    torch.ones(2, 3, 4) @ torch.ones(2, 4, 5)
    torch.ones(3, 4) @ torch.ones(4, 5)
    result = counter.end()
    assert result.model == 2 * 3 * 4 * 5
    assert str(result.note).endswith("cannot count: aten.bmm")
