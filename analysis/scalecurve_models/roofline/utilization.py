"""Time of a worker's own step over its batch, and with it the share of a device's peak that a batch can use (MFU).

    t(m) = t0 + t1 m         MFU(m) = F m / (peak · t(m)), which tends to F/(peak · t1); half of that at m = t0/t1

R. W. Hockney's r∞ and n½ (Parallel Computing 5 (1987)) for a training step. F are the FLOPs of a sample's step.
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

MODEL = "utilization"


@dataclass(frozen=True)
class UtilizationFit:
    """t0, t1, the half-speed batch and, where FLOPs and peak are known, the greatest MFU.

    ``residuals`` and ``held_out`` are predicted/measured - 1 of the time by point; the latter from other batches.
    """

    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]
    flops_per_sample: float | None
    peak: float | None
    level: float
    _linear: LinearFit

    def seconds(self, batch: float) -> Prediction:
        """Of a step with this batch, with the interval for another run.

        Raises:
            FitError: for a batch that is not positive.
        """
        if not (math.isfinite(batch) and batch > 0):
            raise FitError(f"{MODEL}: a batch must be positive, given {batch:g}")
        row = np.array([1.0, batch])
        value = float(row @ self._linear.values)
        if self._linear.covariance is None or self._linear.variance is None:
            return Prediction(value)
        spread = self._linear.variance + float(row @ self._linear.covariance @ row) / value**2
        half = student_quantile(self._linear.degrees, self.level) * math.sqrt(spread)
        return log_interval(value, half)

    def mfu(self, batch: float) -> Prediction | None:
        if self.flops_per_sample is None or self.peak is None:
            return None
        time = self.seconds(batch)
        work = self.flops_per_sample * batch / self.peak
        if time.low is None or time.high is None:
            return Prediction(work / time.value)
        return Prediction(work / time.value, work / time.high, work / time.low if time.low > 0 else math.inf)


def fit_utilization(
    batches: Sequence[float],
    seconds: Sequence[float],
    *,
    flops_per_sample: float | None = None,
    peak: float | None = None,
    level: float = 0.95,
) -> UtilizationFit:
    """Fit to (samples of a worker's step, its seconds without communication).

    Raises:
        FitError: fewer than two different batches, or numbers that are not positive.
    """
    m, t = positive_array(MODEL, "batches", batches), positive_array(MODEL, "times", seconds)
    same_length(MODEL, {"batches": m, "times": t})
    different = len(set(m.tolist()))
    if different < 2:
        raise FitError(f"{MODEL}: t0 and t1 need at least 2 different batches a worker, given {different}")
    rows = np.stack([np.ones_like(m), m], axis=1) / t[:, None]
    linear = nonnegative(rows, np.ones(len(t)), ("t0", "t1"))
    t0, t1 = linear.parameters(("s", "s/sample"), level)
    known = [t0, t1, _half_batch(t0, t1)]
    if flops_per_sample and peak and t1.value:
        low = None if t1.high is None else flops_per_sample / peak / t1.high
        high = None if not t1.low else flops_per_sample / peak / t1.low
        known.append(Parameter("mfu_max", flops_per_sample / peak / t1.value, low, high, ""))
    return UtilizationFit(
        parameters=tuple(known),
        residuals=tuple(float(e) for e in rows @ linear.values - 1),
        held_out=tuple(_left_out(rows, m, float(batch), index) for index, batch in enumerate(m)),
        flops_per_sample=flops_per_sample,
        peak=peak,
        level=level,
        _linear=linear,
    )


def _half_batch(t0: Parameter, t1: Parameter) -> Parameter:
    if not t1.value:
        return Parameter("half_batch", None, None, None, "samples", "the time does not grow with the batch")
    value = (t0.value or 0.0) / t1.value
    return Parameter("half_batch", value, None, None, "samples", "half of the greatest MFU is reached here")


def _left_out(rows: np.ndarray, batches: np.ndarray, batch: float, index: int) -> float | None:
    rest = batches != batch
    if len(set(batches[rest].tolist())) < 2:
        return None
    return float(rows[index] @ nonnegative_values(rows[rest], np.ones(int(rest.sum()))) - 1)
