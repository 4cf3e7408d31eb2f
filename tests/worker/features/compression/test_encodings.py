"""Gradients in fewer bytes, and what error feedback must keep."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_worker.features.compression.encodings import BLOCK, Code, EightBit, OneBit, TopK

CODES: list[Code] = [TopK(0.1), EightBit(), OneBit()]


def values(elements: int, seed: int) -> torch.Tensor:
    return torch.randn(elements, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=30)
@given(elements=st.integers(1, 3 * BLOCK), seed=st.integers(0, 99), code=st.sampled_from(CODES))
def test_a_message_has_a_length_of_its_own_and_loses_no_more_than_all(elements: int, seed: int, code: Code) -> None:
    given = values(elements, seed)
    message = code.encode(given)
    assert message.dtype == torch.uint8
    assert message.numel() == code.encode(torch.zeros(elements)).numel()
    found = code.decode(message, elements)
    assert found.shape == given.shape
    # A contraction: what error feedback needs to converge.
    assert torch.linalg.vector_norm(given - found) <= torch.linalg.vector_norm(given) + 1e-4


@pytest.mark.parametrize(
    ("code", "size"),
    [(TopK(0.01), 8 * 21), (EightBit(), 2 * (BLOCK + 4)), (OneBit(), 2 * (BLOCK // 8 + 8))],
)
def test_bytes(code: Code, size: int) -> None:
    assert code.encode(values(2 * BLOCK, 0)).numel() == size


def test_the_largest_survive() -> None:
    given = torch.tensor([0.1, -5.0, 0.2, 3.0])
    code = TopK(0.5)
    assert code.decode(code.encode(given), 4).tolist() == [0.0, -5.0, 0.0, 3.0]


def test_eight_bits_are_close() -> None:
    given = values(BLOCK, 1)
    found = EightBit().decode(EightBit().encode(given), BLOCK)
    assert (given - found).abs().max() <= given.abs().max() / 254 + 1e-7


def test_one_bit_keeps_signs_and_means() -> None:
    given = values(BLOCK, 2)
    found = OneBit().decode(OneBit().encode(given), BLOCK)
    assert torch.equal(found >= 0, given >= 0)
    assert found.sum().item() == pytest.approx(given.sum().item(), abs=1e-2)
    assert len(found.unique()) == 2


@pytest.mark.parametrize("code", CODES)
def test_with_feedback_nothing_is_lost_for_good(code: Code) -> None:
    """The sum of what was sent follows the sum of what was given: the rest stays bounded."""
    given = values(200, 3)
    left, sent = torch.zeros(200), torch.zeros(200)
    steps = 200
    for _ in range(steps):
        wanted = given + left
        found = code.decode(code.encode(wanted), 200)
        left, sent = wanted - found, sent + found
    assert torch.linalg.vector_norm(sent / steps - given) < 0.2 * math.sqrt(200)
    assert torch.allclose(sent + left, steps * given, atol=1e-2)
