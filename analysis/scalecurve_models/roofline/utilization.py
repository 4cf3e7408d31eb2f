"""Compute time of a worker's step over its batch, and the share of the device's peak that a batch can use (MFU).

    t(m) = t0 + t1 m         MFU(m) = F m / (peak · t(m)), which tends to F/(peak · t1); half of that at m = t0/t1

R. W. Hockney's r∞ and n½ (Parallel Computing 5 (1987)) for a training step. F is the FLOPs per sample of a step.
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

MODEL = "utilization"


@dataclass(frozen=True)
class UtilizationFit:
    """t0, t1, the half-speed batch and, where FLOPs and peak are known, the maximum MFU.

    ``residuals`` and ``held_out`` are predicted/measured - 1 of the time by point; the latter from other batches.
    """

    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]


def fit_utilization(
    batches: Sequence[float],
    seconds: Sequence[float],
    *,
    flops_per_sample: float | None = None,
    peak: float | None = None,
    level: float = 0.95,
) -> UtilizationFit:
    """Fit to (samples per worker's step, its seconds without communication).

    Raises FitError for fewer than two different batches, or numbers that are not positive.
    """
    m, t = positive_array(MODEL, "batches", batches), positive_array(MODEL, "times", seconds)
    same_length(MODEL, {"batches": m, "times": t})
    different = len(set(m.tolist()))
    if different < 2:
        raise FitError(f"{MODEL}: t0 and t1 need at least 2 different batches per worker, got {different}")
    rows = np.stack([np.ones_like(m), m], axis=1) / t[:, None]
    linear = nonnegative(rows, np.ones(len(t)), ("t0", "t1"))
    t0, t1 = linear.parameters(("s", "s/sample"), level)
    parameters = [t0, t1, _half_batch(t0, t1)]
    if flops_per_sample and peak and t1.value:
        low = None if t1.high is None else flops_per_sample / peak / t1.high
        high = None if not t1.low else flops_per_sample / peak / t1.low
        parameters.append(Parameter("mfu_max", flops_per_sample / peak / t1.value, low, high, ""))
    return UtilizationFit(
        parameters=tuple(parameters),
        residuals=tuple(float(e) for e in rows @ linear.values - 1),
        held_out=leave_out(rows, m, 2),
    )


def _half_batch(t0: Parameter, t1: Parameter) -> Parameter:
    if not t1.value:
        return Parameter("half_batch", unit="samples", note="the time does not grow with the batch")
    value = (t0.value or 0.0) / t1.value
    return Parameter("half_batch", value, unit="samples", note="half of the maximum MFU is reached here")
