"""Learning rates over epochs, and update rules by layer against their formulas."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scalebench_api.experiment import Optimizer
from scalebench_worker.torch.optimizers import make_optimizer, rule_of
from scalebench_worker.torch.rates import changes, rate_at

GOYAL = Optimizer(
    learning_rate=0.1, scale_with_workers=True, warmup_epochs=5.0, decay="multi-step", milestones=[30, 60, 80]
)


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [(0, 0.1), (2.5, 0.45), (5, 0.8), (29.9, 0.8), (30, 0.08), (60, 0.008), (80, 0.0008), (89, 0.0008)],
)
def test_linear_scaling_with_gradual_warm_up_and_steps(epoch: float, rate: float) -> None:
    assert rate_at(GOYAL, epoch, 90, 8) == pytest.approx(rate)


def test_a_cosine_from_the_end_of_the_warm_up_to_zero() -> None:
    asked = Optimizer(learning_rate=0.4, warmup_epochs=2.0, decay="cosine")
    found = [rate_at(asked, epoch, 10, 4) for epoch in (0, 1, 2, 6, 10)]
    assert found == pytest.approx([0, 0.2, 0.4, 0.2, 0])


def test_a_constant_rate_needs_no_setting() -> None:
    assert not changes(Optimizer())
    assert changes(GOYAL)
    assert rate_at(Optimizer(learning_rate=0.3), 7, 10, 4) == 0.3


@given(epoch=st.floats(0, 10), workers=st.integers(1, 64), decay=st.sampled_from(["constant", "multi-step", "cosine"]))
def test_a_rate_lies_between_zero_and_the_scaled_one(epoch: float, workers: int, decay: str) -> None:
    asked = Optimizer.model_validate(
        {"scaleWithWorkers": True, "warmupEpochs": 2.0, "decay": decay, "milestones": [4, 6], "learningRate": 0.1}
    )
    assert 0 <= rate_at(asked, epoch, 10, workers) <= 0.1 * workers + 1e-12


def updated(weight: torch.Tensor, gradient: torch.Tensor, steps: int, **asked: object) -> torch.Tensor:
    parameter = torch.nn.Parameter(weight.clone())
    optimizer = make_optimizer([parameter], Optimizer.model_validate(asked))
    for _ in range(steps):
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def test_lars_scales_a_layer_by_its_trust() -> None:
    weight, gradient = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.6, 0.8]])
    # |w| = 5, |g| = 1, decay 0.1: ratio 0.01 x 5 / (1 + 0.5); direction g + 0.1 w.
    ratio = 0.01 * 5 / 1.5
    expected = weight - 2.0 * ratio * (gradient + 0.1 * weight)
    asked = {"name": "lars", "learningRate": 2.0, "momentum": 0.0, "weightDecay": 0.1, "trust": 0.01}
    assert torch.allclose(updated(weight, gradient, 1, **asked), expected)
    # Whatever the gradient's size, without decay.
    light = {**asked, "weightDecay": 0.0}
    assert torch.allclose(updated(weight, gradient, 1, **light), updated(weight, 1000 * gradient, 1, **light))


def test_lamb_moves_a_layer_by_a_share_of_its_length() -> None:
    weight, gradient = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.5, -0.25]])
    # Adam's first step is the sign; its length is sqrt 2.
    expected = weight - 0.1 * 5 / 2**0.5 * gradient.sign()
    assert torch.allclose(updated(weight, gradient, 1, name="lamb", learningRate=0.1), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_vectors_and_layers_of_zeros_still_move(name: str) -> None:
    asked = {"name": name, "learningRate": 0.1, "momentum": 0.0}
    bias = updated(torch.zeros(2), torch.tensor([1.0, -1.0]), 2, **asked)
    assert torch.allclose(bias, torch.tensor([-0.2, 0.2]), atol=1e-4)
    assert updated(torch.zeros(1, 2), torch.ones(1, 2), 1, **asked).abs().min() > 0


def test_the_rate_of_timed_steps_is_the_scaled_one() -> None:
    optimizer = make_optimizer([torch.nn.Parameter(torch.zeros(1))], GOYAL, workers=4)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.4)


def test_adamw_is_fused_on_gpus_alone() -> None:
    asked = Optimizer(name="adamw")
    assert rule_of(asked, device="cuda")[1]["fused"] is True
    assert not make_optimizer([torch.nn.Parameter(torch.zeros(1))], asked).defaults["fused"]
