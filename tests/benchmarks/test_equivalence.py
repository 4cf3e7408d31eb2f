"""The limits of a fidelity run's overhead, from its pairs."""

import random

import pytest

from benchmarks.fidelity.equivalence import overhead


def test_limits_of_pairs() -> None:
    bounds = overhead([1.0, 1.0, 1.0])
    assert bounds is not None
    assert (bounds.mean, bounds.lower, bounds.upper, bounds.equivalent) == (0.0, 0.0, 0.0, True)
    wide = overhead([1.0, 1.02, 0.98])
    assert wide is not None
    assert wide.lower < -0.005 < 0.005 < wide.upper
    assert not wide.equivalent
    slow = overhead([0.98, 0.9801, 0.9799])
    assert slow is not None
    assert slow.mean == pytest.approx(1 / 0.98 - 1, abs=1e-4)
    assert not slow.equivalent
    assert overhead([0.999]) is None


def test_five_of_a_hundred_pass_at_the_margin() -> None:
    draw = random.Random(1)
    passed = 0
    for _ in range(2000):
        bounds = overhead([(1 + 0.005) ** -1 * draw.lognormvariate(0, 0.0005) for _ in range(3)])
        passed += bounds is not None and bounds.equivalent
    assert 0.03 < passed / 2000 < 0.07
