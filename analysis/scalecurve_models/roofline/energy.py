"""Energy of a sample: what its arithmetic takes, and what devices draw for as long as they wait beside it.

    J/sample = e + P · N/X       N workers, X samples/s: N/X are the worker-seconds that a sample holds devices

e and P come apart where the same samples were worked at different efficiencies (or batches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics.intervals import student_quantile
from scalecurve_models.fitting.least_squares import (
    FitError,
    LinearFit,
    Parameter,
    Prediction,
    log_interval,
    nonnegative,
    nonnegative_values,
    positive_array,
    same_length,
)

MODEL = "energy"


@dataclass(frozen=True)
class EnergyFit:
    """``e`` in J/sample and ``p`` in W a worker; errors are predicted/measured - 1 by point."""

    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]
    level: float
    _linear: LinearFit

    def joules(self, workers: int, throughput: float) -> Prediction:
        """A sample, with the interval for another run; ``throughput`` in samples/s over all workers.

        Raises:
            FitError: for what is not positive.
        """
        if not (workers > 0 and math.isfinite(throughput) and throughput > 0):
            raise FitError(f"{MODEL}: workers and throughput must be positive, given {workers} and {throughput:g}")
        row = np.array([1.0, workers / throughput])
        value = float(row @ self._linear.values)
        if self._linear.covariance is None or self._linear.variance is None:
            return Prediction(value)
        spread = self._linear.variance + float(row @ self._linear.covariance @ row) / value**2
        half = student_quantile(self._linear.degrees, self.level) * math.sqrt(spread)
        return log_interval(value, half)


def fit_energy(
    workers: Sequence[int], throughput: Sequence[float], joules: Sequence[float], level: float = 0.95
) -> EnergyFit:
    """Fit to (workers, samples/s over all, joules a sample over all).

    Raises:
        FitError: fewer than two points, or numbers that are not positive.
    """
    n, x = positive_array(MODEL, "worker counts", workers), positive_array(MODEL, "throughputs", throughput)
    j = positive_array(MODEL, "energies", joules)
    if same_length(MODEL, {"worker counts": n, "throughputs": x, "energies": j}) < 2:
        raise FitError(f"{MODEL}: e and P need at least 2 points, given {len(n)}")
    rows = np.stack([np.ones_like(n), n / x], axis=1) / j[:, None]
    linear = nonnegative(rows, np.ones(len(j)), ("e", "p"))
    held: list[float | None] = []
    for index in range(len(j)):
        rest = n != n[index]
        few = len(set(n[rest].tolist())) < 2
        held.append(None if few else float(rows[index] @ nonnegative_values(rows[rest], np.ones(int(rest.sum()))) - 1))
    return EnergyFit(
        parameters=linear.parameters(("J/sample", "W"), level),
        residuals=tuple(float(e) for e in rows @ linear.values - 1),
        held_out=tuple(held),
        level=level,
        _linear=linear,
    )
