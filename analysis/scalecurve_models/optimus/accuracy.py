"""Accuracy fitted as the loss 1 - accuracy with Optimus' curve: an assumption, to be judged by its residuals."""

from collections.abc import Sequence

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.loss import LossFit, StepsToTarget, fit_loss

_LEAST = 1e-9


def fit_accuracy(steps: Sequence[float], accuracies: Sequence[float], level: float = 0.95) -> LossFit:
    """The curve of 1 - accuracy, for ``steps_to(1 - target)``.

    Raises FitError for an accuracy outside [0, 1], or fewer than three steps.
    """
    for value in accuracies:
        if not 0 <= value <= 1:
            raise FitError(f"accuracy curve: accuracies must be in [0, 1], got {value:g}")
    return fit_loss(steps, [max(1 - value, _LEAST) for value in accuracies], level=level)


def steps_to_accuracy(fit: LossFit, target: float) -> StepsToTarget:
    """Steps to an accuracy, from a curve of ``fit_accuracy``. Raises FitError for a target outside (0, 1)."""
    if not 0 < target < 1:
        raise FitError(f"accuracy curve: target accuracy must be between 0 and 1, got {target:g}")
    reach = fit.steps_to(1 - target)
    if reach.steps is None:
        best = 1 - float(fit.values[2])
        return StepsToTarget(
            None, reach.low, None, f"the fitted accuracy flattens at {best:.4g}, below the target of {target:g}"
        )
    return reach
