import numpy as np
import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.loss import fit_accuracy, steps_to_accuracy


def test_accuracy_is_the_loss_of_one_minus_it():
    epochs = np.arange(1.0, 40)
    accuracies = 1 - (1 / (0.5 * epochs + 1.2) + 0.05)
    fit = fit_accuracy(epochs, accuracies)
    reach = steps_to_accuracy(fit, 0.92)
    assert reach.steps == pytest.approx((1 / 0.03 - 1.2) / 0.5)
    never = steps_to_accuracy(fit, 0.97)
    assert never.steps is None
    assert "the fitted accuracy flattens at 0.95, below the target of 0.97" in never.why
    with pytest.raises(FitError, match="accuracies must be in"):
        fit_accuracy([1, 2, 3], [0.1, 92.0, 0.3])
    with pytest.raises(FitError, match="between 0 and 1, got 92"):
        steps_to_accuracy(fit, 92)
