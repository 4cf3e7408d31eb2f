"""How many repetitions decide a difference: fewer for larger ones and quieter machines, and right when drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.planning.decisive import MOST, decisive_table, find_deciding_repetitions
from scalecurve.statistics.comparison import detectable
from scalecurve.statistics.spread import Spread


@given(change=st.floats(0.001, 0.2), sd=st.floats(1e-5, 0.05))
def test_it_is_the_fewest_that_find_the_change(change: float, sd: float):
    def smallest(number: int) -> float:
        return detectable(Spread(2 * sd**2 / number, 2 * (number - 1))) or math.inf

    number = find_deciding_repetitions(change, sd)
    if number is None:
        assert smallest(MOST) > change
        return
    assert smallest(number) <= change
    assert number == 2 or smallest(number - 1) > change


@pytest.mark.parametrize(("change", "sd"), [(0.01, 0.005), (0.02, 0.02)])
def test_the_change_is_found_in_four_of_five_experiments(change: float, sd: float):
    number = find_deciding_repetitions(change, sd)
    assert number is not None
    draw = np.random.default_rng(5)
    before, after = (draw.normal(shift, sd, (4000, number)) for shift in (0.0, math.log1p(change)))
    from scipy.stats import ttest_ind

    found = ttest_ind(before, after, axis=1, equal_var=False).pvalue < 0.05
    assert 0.75 < found.mean() < 0.95


def test_without_evidence_the_table_is_empty():
    assert decisive_table([0.01], []).rows == ()
