"""What a device does at a batch size, and the energy that it takes: compute time, share of the peak, and power.

Compute time of a worker's step over its batch, and the share of the device's peak that a batch can use (MFU):

    t(m) = t0 + t1 m         MFU(m) = F m / (peak · t(m)), which tends to F/(peak · t1); half of that at m = t0/t1

R. W. Hockney's r∞ and n½ (Parallel Computing 5 (1987)) for a training step. F is the FLOPs per sample of a step.

Energy per sample: the energy of its arithmetic, and the power that devices draw while they hold it:

    J/sample = e + P · N/X       N workers, X samples/s: N/X are the worker-seconds per sample

e and P are separable where the same samples were processed at different efficiencies (or batches).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalecurve_models.fitting.least_squares import FitError, Parameter, SumFit, fit_sum, positive_array, same_length


def fit_utilization(
    batches: Sequence[float],
    seconds: Sequence[float],
    *,
    flops_per_sample: float | None = None,
    peak: float | None = None,
) -> SumFit:
    """t0, t1, the half-speed batch and, where FLOPs and peak are known, the maximum MFU; other batches are left out.

    Fitted to (samples per worker's step, its seconds without communication). Raises FitError for fewer than two
    different batches, or numbers that are not positive.
    """
    model = "utilization"
    m, t = positive_array(model, "batches", batches), positive_array(model, "times", seconds)
    same_length(model, {"batches": m, "times": t})
    different = len(set(m.tolist()))
    if different < 2:
        raise FitError(f"{model}: t0 and t1 need at least 2 different batches per worker, got {different}")
    fit = fit_sum([np.ones_like(m), m], t, m, t0="s", t1="s/sample")
    t0, t1 = fit.parameters
    half = Parameter("half_batch", unit="samples", note="the time does not grow with the batch")
    if t1.value:
        note = "half of the maximum MFU is reached here"
        half = Parameter("half_batch", (t0.value or 0.0) / t1.value, unit="samples", note=note)
    return replace(fit, parameters=(t0, t1, half, *_most(t1, flops_per_sample, peak)))


def _most(t1: Parameter, flops: float | None, peak: float | None) -> list[Parameter]:
    if not (flops and peak and t1.value):
        return []
    low = None if t1.high is None else flops / peak / t1.high
    high = None if not t1.low else flops / peak / t1.low
    return [Parameter("mfu_max", flops / peak / t1.value, low, high)]


def fit_energy(workers: Sequence[int], throughput: Sequence[float], joules: Sequence[float]) -> SumFit:
    """``e`` in J/sample and ``p`` in W per worker from (workers, samples/s over all, joules per sample over all).

    Raises FitError for fewer than two points, or numbers that are not positive.
    """
    model = "energy"
    n, x = positive_array(model, "worker counts", workers), positive_array(model, "throughputs", throughput)
    j = positive_array(model, "energies", joules)
    if same_length(model, {"worker counts": n, "throughputs": x, "energies": j}) < 2:
        raise FitError(f"{model}: e and P need at least 2 points, got {len(n)}")
    return fit_sum([np.ones_like(n), n / x], j, n, e="J/sample", p="W")
