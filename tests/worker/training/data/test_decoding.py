"""Where a picture is cut, at random and in the middle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.training.data.decoding import AREA, RATIO, middle_crop, random_crop

SIZES = st.tuples(st.integers(1, 5000), st.integers(1, 5000))


@given(size=SIZES, seed=st.integers(0, 2**32))
def test_random_crops_lie_inside_and_keep_to_their_limits(size: tuple[int, int], seed: int) -> None:
    width, height = size
    left, top, right, bottom = random_crop(size, np.random.default_rng(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    if min(size) > 100:
        assert (right - left) * (bottom - top) <= width * height * AREA[1]
        if max(size) / min(size) < RATIO[1]:
            assert (right - left) * (bottom - top) >= 0.9 * width * height * AREA[0]
            assert 0.95 * RATIO[0] <= (right - left) / (bottom - top) <= 1.05 * RATIO[1]


@given(size=SIZES, wanted=st.tuples(st.integers(1, 500), st.integers(1, 500)))
def test_middle_crops_are_centred_and_keep_the_proportions(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    left, top, right, bottom = middle_crop(size, wanted)
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]
    assert left + right == pytest.approx(size[0])
    assert top + bottom == pytest.approx(size[1])
    assert (right - left) / (bottom - top) == pytest.approx(wanted[0] / wanted[1], rel=1e-6)


def test_the_middle_of_a_photograph_is_what_torchvision_takes() -> None:
    """Shorter side to 256, then the middle 224: the middle 7/8 of the shorter side."""
    assert middle_crop((500, 400), (224, 224)) == (75.0, 25.0, 425.0, 375.0)
