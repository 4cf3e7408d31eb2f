"""The order of items without torch is torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_worker.training.data.order import shuffled


@settings(max_examples=60)
@given(items=st.integers(0, 3000), seed=st.integers(0, 2**40))
def test_the_order_is_that_of_torchs_generator(items: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    assert np.array_equal(shuffled(items, seed), torch.randperm(items, generator=generator).numpy())


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**32, 2**32 + 5])
def test_more_items_than_the_twister_has_words(seed: int) -> None:
    order = shuffled(20_000, seed)
    assert np.array_equal(order, torch.randperm(20_000, generator=torch.Generator().manual_seed(seed)).numpy())
    assert sorted(order.tolist()) == list(range(20_000))
