"""Energy per sample: the energy of its arithmetic, and the power that devices draw while they hold it.

    J/sample = e + P · N/X       N workers, X samples/s: N/X are the worker-seconds per sample

e and P are separable where the same samples were processed at different efficiencies (or batches).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.fitting.least_squares import (
    FitError,
    Parameter,
    leave_out,
    nonnegative,
    positive_array,
    same_length,
)

MODEL = "energy"


@dataclass(frozen=True)
class EnergyFit:
    """``e`` in J/sample and ``p`` in W per worker; errors are predicted/measured - 1 by point."""

    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]


def fit_energy(
    workers: Sequence[int], throughput: Sequence[float], joules: Sequence[float], level: float = 0.95
) -> EnergyFit:
    """Fit to (workers, samples/s over all, joules per sample over all).

    Raises FitError for fewer than two points, or numbers that are not positive.
    """
    n, x = positive_array(MODEL, "worker counts", workers), positive_array(MODEL, "throughputs", throughput)
    j = positive_array(MODEL, "energies", joules)
    if same_length(MODEL, {"worker counts": n, "throughputs": x, "energies": j}) < 2:
        raise FitError(f"{MODEL}: e and P need at least 2 points, got {len(n)}")
    rows = np.stack([np.ones_like(n), n / x], axis=1) / j[:, None]
    linear = nonnegative(rows, np.ones(len(j)), ("e", "p"))
    return EnergyFit(
        parameters=linear.parameters(("J/sample", "W"), level),
        residuals=tuple(float(e) for e in rows @ linear.values - 1),
        held_out=leave_out(rows, n, 2),
    )
