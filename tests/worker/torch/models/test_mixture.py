"""A mixture of experts against a loop over its tokens; balanced whatever the router says."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from scalecurve_worker.torch.flops import count_step_flops
from scalecurve_worker.torch.models import ModelError, build
from scalecurve_worker.torch.models.mixture import MixtureOfExperts


def made(width: int, feed_forward: int, count: int, active: int) -> MixtureOfExperts:
    mixture = MixtureOfExperts(width, feed_forward, count, active)
    for parameter in mixture.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return mixture


def by_hand(mixture: MixtureOfExperts, x: Tensor) -> tuple[Tensor, list[int]]:
    """Token by token; and how many slots each expert had."""
    out, slots = torch.zeros_like(x), [0] * mixture.count
    scores = mixture.router(x).softmax(-1)
    for sequence in range(x.shape[0]):
        for token in range(x.shape[1]):
            chosen = [(token * mixture.active + turn) % mixture.count for turn in range(mixture.active)]
            total = sum(scores[sequence, token, expert] for expert in chosen)
            for expert in chosen:
                slots[expert] += 1
                own, experts = x[sequence, token], mixture.experts
                hidden = F.silu(own @ experts.gate[expert]) * (own @ experts.up[expert])
                out[sequence, token] += hidden @ experts.down[expert] * scores[sequence, token, expert] / total
    return out, slots


@settings(max_examples=20)
@given(
    count=st.integers(1, 6),
    active=st.integers(1, 3),
    batch=st.integers(1, 2),
    turns=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_it_is_what_a_loop_over_tokens_computes(count: int, active: int, batch: int, turns: int, seed: int) -> None:
    torch.manual_seed(seed)
    active = min(active, count)
    mixture, x = made(4, 6, count, active), torch.randn(batch, count * turns, 4)
    expected, slots = by_hand(mixture, x)
    torch.testing.assert_close(mixture(x), expected, rtol=1e-4, atol=1e-5)
    assert set(slots) == {batch * turns * active}, "balanced"


def test_every_parameter_is_trained() -> None:
    mixture = made(8, 12, 4, 2)
    mixture(torch.randn(2, 6, 8)).square().sum().backward()
    for name, parameter in mixture.named_parameters():
        assert parameter.grad is not None, name
        assert all(bool(each.any()) for each in parameter.grad), f"{name}: of every expert"


def test_flops_are_those_of_active_experts() -> None:
    tokens = torch.zeros(1, 64, dtype=torch.long)
    dense = count_step_flops(build("llama_tiny"), tokens).total
    sparse = count_step_flops(build("mixture_tiny"), tokens).total
    # Per layer and token: three matrices of 64 x 192, against those of 64 x 96 of two experts, and a router of 4.
    assert sparse - dense == 3 * 2 * 2 * 64 * (64 * 4)


def test_a_sequence_that_experts_cannot_share_equally() -> None:
    with pytest.raises(ModelError, match="sequence length 31: 2 of 4 experts a token do not share it"):
        build("mixture_tiny", input_shape=[31])
