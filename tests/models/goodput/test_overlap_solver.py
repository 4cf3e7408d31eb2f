import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_models.goodput.overlap import fit_overlap
from scalecurve_models.goodput.overlap_solver import Runs, slopes, times
from tests.models.goodput.goodput_cases import RUNS, TRUTH, measured


def test_the_step_is_the_published_one():
    compute, step = times(TRUTH, Runs.of([(1, 1, 50), (4, 1, 50), (8, 2, 50)]))
    assert compute == pytest.approx([0.11] * 3)
    within, between = 0.008 + 0.0005 * 2, 0.03 + 0.001 * 6
    assert step[0] == pytest.approx(0.11)
    assert step[1] == pytest.approx((0.11**3 + within**3) ** (1 / 3))
    assert step[2] == pytest.approx((0.11**3 + between**3) ** (1 / 3))


@settings(max_examples=40)
@given(st.lists(st.floats(1e-4, 0.1), min_size=6, max_size=6), st.floats(1, 10))
def test_slopes_are_the_derivatives(times_, gamma):
    values = np.array([*times_, gamma])
    runs = Runs.of(RUNS)
    compute, step = slopes(values, tuple(range(7)), runs)
    for index in range(7):
        up, down = values.copy(), values.copy()
        h = 1e-6
        up[index], down[index] = (gamma + h, gamma - h) if index == 6 else (values[index] * np.exp([h, -h]))
        for slope, which in ((compute, 0), (step, 1)):
            numeric = (np.log(times(up, runs)[which]) - np.log(times(down, runs)[which])) / (2 * h)
            assert slope[:, index] == pytest.approx(numeric, abs=1e-6)


def test_a_known_step_comes_back_and_predicts_what_was_not_run():
    fit = fit_overlap(measured())
    assert max(map(abs, fit.residuals)) < 1e-3
    assert fit.held_out_mean < 1e-3
    expected = times(TRUTH, Runs.of([(64, 8, 32)]))[1][0]
    assert fit.step_s(64, 32, nodes=8) == pytest.approx(expected, rel=0.01)
