"""Extrapolate a quantity to more workers, with an interval; or refuse.

A line through logarithms: log y (or y itself, for accuracies) against log2 of the worker count, fitted to every run by
least squares, with Student's interval of the mean at the further count. Two tests come before it: at least three
worker counts must have been run, and the same line through all but the largest must have predicted the largest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics.spread import student_quantile

LEAST_COUNTS = 3
Runs = Mapping[int, Sequence[float]]


@dataclass(frozen=True)
class Extrapolated:
    """A mean at ``workers`` with its interval; without a value ``why`` says what it cannot be told from."""

    workers: int
    value: float | None
    low: float | None
    high: float | None
    why: str = ""


def extrapolate(runs: Runs, workers: int, level: float = 0.95, *, logarithm: bool = True) -> Extrapolated:
    """Estimate the mean at ``workers``; ``runs`` has a value for each run of every count, positive where ``logarithm``.

    Raises ValueError for counts below 1, or values of which there is no logarithm.
    """
    values_by_count = {count: [float(value) for value in values] for count, values in sorted(runs.items()) if values}
    if any(count < 1 for count in (*values_by_count, workers)):
        raise ValueError(f"expected worker counts of at least 1, got {min(*values_by_count, workers)}")
    if logarithm and any(value <= 0 for values in values_by_count.values() for value in values):
        raise ValueError("expected positive values for a logarithm")
    if len(values_by_count) < LEAST_COUNTS:
        return _not(workers, f"not identifiable: {len(values_by_count)} worker counts; a trend needs {LEAST_COUNTS}")
    largest = max(values_by_count)
    before = {count: values for count, values in values_by_count.items() if count != largest}
    predicted = _line(before, largest, level, logarithm, len(values_by_count[largest]))
    line = _line(values_by_count, workers, level, logarithm)
    if predicted is None or line is None:
        return _not(workers, "not identifiable: too few repetitions to separate a trend from noise")
    observed = float(np.mean([_scale(value, logarithm) for value in values_by_count[largest]]))
    if not predicted[1] <= observed <= predicted[2]:
        value, low, high = (_back(end, logarithm) for end in predicted)
        prediction = f"fewer workers predict {value:.4g} ({low:.4g} to {high:.4g}) at {largest} workers"
        return _not(workers, f"not identifiable: {prediction}, but {_back(observed, logarithm):.4g} was measured")
    value, low, high = (_back(end, logarithm) for end in line)
    return Extrapolated(workers, value, low, high)


def _line(
    runs: Mapping[int, Sequence[float]], workers: int, level: float, logarithm: bool, more: int = 0
) -> tuple[float, float, float] | None:
    """(mean, low, high) at ``workers``, on the fitted scale; ``more``: the interval of a new mean of so many runs."""
    x = np.array([math.log2(count) for count, values in runs.items() for _ in values])
    y = np.array([_scale(value, logarithm) for values in runs.values() for value in values])
    degrees = len(x) - 2
    spread = float(((x - x.mean()) ** 2).sum())
    if degrees < 1 or spread == 0:
        return None
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    at = math.log2(workers)
    value = float(y.mean()) + slope * (at - float(x.mean()))
    residual = y - y.mean() - slope * (x - x.mean())
    variance = float((residual**2).sum()) / degrees
    share = 1 / len(x) + (at - float(x.mean())) ** 2 / spread + (1 / more if more else 0.0)
    # Rounding alone must not tell a line that goes through all points from one that does not.
    half = student_quantile(degrees, level) * math.sqrt(variance * share) + 1e-9 * (abs(value) + 1e-9)
    return value, value - half, value + half


def _scale(value: float, logarithm: bool) -> float:
    return math.log(value) if logarithm else value


def _back(value: float, logarithm: bool) -> float:
    return math.exp(min(value, 700.0)) if logarithm else value


def _not(workers: int, why: str) -> Extrapolated:
    return Extrapolated(workers, None, None, None, why)
