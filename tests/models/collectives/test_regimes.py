import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_models.collectives.regimes import divisions, piece_errors
from scalecurve_models.fitting.least_squares import nonnegative


@settings(max_examples=30)
@given(st.integers(6, 12), st.integers(1, 3), st.integers(0, 10_000))
def test_pieces_are_the_best_of_all_divisions(count, width, seed):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(0.1, 2, (2 * count, width)) * [1, 1e3, 1e-3][:width]
    size_of = np.arange(2 * count) // 2
    errors = piece_errors(size_of, rows, count)
    for first in range(count):
        for last in range(first + 2, count):
            here = (size_of >= first) & (size_of <= last)
            exact = nonnegative(rows[here], np.ones(int(here.sum())), "abc"[:width]).residuals
            assert errors[first, last] == pytest.approx(float(exact @ exact), rel=1e-6, abs=1e-9)
    best = min((errors[0, cut - 1] + errors[cut, count - 1] for cut in range(1, count)), default=np.inf)
    first, second = divisions(errors, 2)[1]
    assert errors[first] + errors[second] == pytest.approx(best)
