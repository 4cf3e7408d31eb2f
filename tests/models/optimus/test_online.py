import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.loss import refits
from tests.models.optimus.optimus_loss_cases import PAPER, STEPS, noisy


def test_refits_get_better_as_points_arrive():
    found = refits(STEPS.tolist(), noisy(PAPER).tolist(), (0.003, 0.1, 0.5, 1.0))
    assert found[0].fit is None
    assert "got 1" in found[0].failure
    assert found[1].ahead_error > found[2].ahead_error
    assert found[3].ahead_error is None
    assert abs(found[3].last_error) < 0.02
    with pytest.raises(FitError, match=r"shares of a run must be in \(0, 1\]"):
        refits([1, 2], [1, 2], (2.0,))
