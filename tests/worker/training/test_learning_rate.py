from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_worker.torch.optimizers import make_optimizer
from scalecurve_worker.training.learning_rate import changes, rate_at

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


def test_the_rate_of_timed_steps_is_the_scaled_one() -> None:
    optimizer = make_optimizer([torch.nn.Parameter(torch.zeros(1))], GOYAL, workers=4)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.4)
