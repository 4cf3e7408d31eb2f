import numpy as np
import pytest

from scalecurve_models.optimus.loss import fit_loss
from scalecurve_models.optimus.thinning import outliers, replace_outliers, thinned
from tests.models.optimus.optimus_loss_cases import PAPER, losses, noisy


def test_a_falling_curve_has_no_outliers_and_an_ordinary_tail_few():
    assert not outliers(losses(PAPER)).any()
    assert outliers(noisy(PAPER)).sum() <= 3
    spoilt = losses(PAPER)
    spoilt[100] *= 3
    smooth, count = replace_outliers(spoilt)
    assert count == 1
    assert smooth[100] == pytest.approx((spoilt[99] + spoilt[101]) / 2)


def test_long_runs_are_thinned_without_moving_the_curve():
    steps = np.arange(200_000.0)
    truth = PAPER * [1e-3, 1, 1]
    fit = fit_loss(steps, noisy(truth, steps))
    assert fit.values == pytest.approx(truth, rel=0.01)
    k, loss, weight = thinned(steps, losses(truth, steps), 1000)
    assert len(k) <= 1000
    assert weight.sum() == 200_000
    assert loss == pytest.approx(losses(truth, k), rel=1e-4)
