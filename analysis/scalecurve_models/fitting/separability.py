"""Which of several models the errors at left-out points tell apart: none is called the best that is not.

The rule of one standard error: L. Breiman, J. Friedman, R. Olshen and C. Stone, Classification and Regression Trees
(1984), section 3.4.3.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import TypeVar

Model = TypeVar("Model")
RULE = (
    "A model is the best if its mean error at left-out points is below that of every other one by more than the "
    "standard error of their difference, and by 0.5 points or more; errors in sample do not count."
)
LEAST_GAP = 0.005
"""Of a measured value: repetitions of one session differ by as much, so a smaller gap would not be seen again."""


def separable(worse: Sequence[float], better: Sequence[float]) -> bool:
    """Whether errors at the same left-out points differ, in their mean size, by more than their own standard error.

    And by ``LEAST_GAP``. One point has no standard error, and separates nothing.
    """
    gaps = [abs(one) - abs(other) for one, other in zip(worse, better, strict=True)]
    return len(gaps) > 1 and fmean(gaps) > max(LEAST_GAP, stdev(gaps) / sqrt(len(gaps)))


def leading(models: Sequence[Model], errors_of: Callable[[Model], Mapping[int, float | None]]) -> tuple[Model, ...]:
    """The model of the lowest mean error and all that it is not separable from, in their order.

    ``errors_of`` gives the error at each left-out worker count. A model that lacks one is not among them: it was not
    tested at every point, and the others would be easier.
    """
    tested: list[tuple[Model, dict[int, float]]] = []
    for model in models:
        errors = errors_of(model)
        known = {workers: error for workers, error in errors.items() if error is not None}
        if known and len(known) == len(errors):
            tested.append((model, known))
    if not tested:
        return ()
    _, least = min(tested, key=lambda each: fmean(map(abs, each[1].values())))
    return tuple(model for model, errors in tested if errors is least or not _separable(errors, least))


def _separable(errors: Mapping[int, float], least: Mapping[int, float]) -> bool:
    common = sorted(errors.keys() & least.keys())
    return separable([errors[n] for n in common], [least[n] for n in common])


def not_separable(names: Sequence[str]) -> str:
    """What stands in the place of a best model."""
    return f"not separable: {', '.join(names)}"
