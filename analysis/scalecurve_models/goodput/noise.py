"""The value of a larger batch: gradient noise, statistical efficiency, goodput.

S. McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv:1812.06162): B_simple = tr(Σ)/|G|², and with a
batch of B steps and samples to a target grow as S/S_min = 1 + B_crit/B and E/E_min = 1 + B/B_crit. Qiao et al., Pollux
(OSDI 2021): efficiency(M) = (var + sqr)/(var/scale + sqr)/scale with scale = M/M0, goodput = throughput · efficiency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.fitting.least_squares import (
    NOT_IDENTIFIABLE,
    FitError,
    LinearFit,
    Parameter,
    leave_out,
    nonnegative,
    positive_array,
    require_points,
    same_length,
)
from scalecurve_models.goodput.overlap import OverlapFit

MODEL = "gradient noise"
_SMOOTHING = 0.999
_SIZES = 50


@dataclass(frozen=True)
class GradientNoise:
    """|G|² (``squared``) and the variance of a gradient of ``batch`` samples; either may come out as 0 by chance."""

    squared: float
    variance: float
    batch: float

    @property
    def scale(self) -> float:
        """B_simple in samples: the batch whose noise is as large as the gradient; infinite for no gradient."""
        return self.variance * self.batch / self.squared if self.squared > 0 else math.inf

    def efficiency(self, batch: float) -> float:
        """Progress of a sample in a batch of this size, relative to one of ``self.batch``: at most 1 above it.

        Raises FitError for a batch that is not positive.
        """
        if not (math.isfinite(batch) and batch > 0):
            raise FitError(f"{MODEL}: batch must be positive, got {batch:g}")
        scale = batch / self.batch
        lower = self.variance / scale + self.squared
        gain = (self.variance + self.squared) / lower if lower > 0 else 1.0
        return gain / scale


def noise_of_scale(scale: float, batch: float) -> GradientNoise:
    """From a known noise scale in samples: efficiency(M) = (B + M0)/(B + M).

    Raises FitError for numbers that are not positive.
    """
    positive_array(MODEL, "noise scale and batch", [scale, batch])
    return GradientNoise(1.0, scale / batch, batch)


def noise_of_batches(small: float, small_norm2: float, big: float, big_norm2: float) -> GradientNoise:
    """Unbiased from the mean squared norms of gradients of two batch sizes (McCandlish, appendix A.1).

    Raises FitError for batches or norms that are not positive, or not of ascending size.
    """
    positive_array(MODEL, "batches and squared norms", [small, small_norm2, big, big_norm2])
    if not big > small:
        raise FitError(f"{MODEL}: needs a larger and a smaller batch, got {big:g} and {small:g}")
    squared = (big * big_norm2 - small * small_norm2) / (big - small)
    trace = (small_norm2 - big_norm2) / (1 / small - 1 / big)
    return GradientNoise(max(squared, 0.0), max(trace, 0.0) / small, small)


def noise_of_replicas(replicas: int, local_norm2: float, total_norm2: float, batch: float) -> GradientNoise:
    """From one step of ``replicas`` workers: the mean |g|² of their own gradients, and |g|² of the averaged one.

    ``batch`` is that of all together, whose variance it gives (AdaptDL's estimator at scale 1). Raises FitError for
    fewer than two replicas, or numbers that are not positive.
    """
    positive_array(MODEL, "squared norms and batch", [local_norm2, total_norm2, batch])
    if replicas < 2:
        raise FitError(f"{MODEL}: one gradient per step has no spread; needs at least 2 replicas, got {replicas}")
    squared = (replicas * total_norm2 - local_norm2) / (replicas - 1)
    variance = (local_norm2 - total_norm2) / (replicas - 1)
    return GradientNoise(max(squared, 0.0), max(variance, 0.0), batch)


def smoothed(noises: Sequence[GradientNoise], scale: float = 1.0) -> GradientNoise:
    """The exponential mean that AdaptDL keeps, with 0.999^scale and bias correction.

    Raises FitError for none, or steps of different batches.
    """
    if not noises or len({noise.batch for noise in noises}) > 1:
        raise FitError(f"{MODEL}: needs steps of a single batch size to average, got {len(noises)}")
    keep = _SMOOTHING**scale
    squared = variance = weight = 0.0
    for noise in noises:
        squared = keep * squared + (1 - keep) * noise.squared
        variance = keep * variance + (1 - keep) * noise.variance
        weight = keep * weight + (1 - keep)
    return GradientNoise(squared / weight, variance / weight, noises[0].batch)


@dataclass(frozen=True)
class CriticalBatch:
    """Steps to one target at several batches: S = S_min (1 + B_crit/B). Parameters: ``s_min`` and ``b_crit``."""

    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]
    _linear: LinearFit

    def steps(self, batch: float) -> float:
        return float(self._linear.values @ [1.0, 1 / batch])


def fit_critical_batch(batches: Sequence[float], steps: Sequence[float], level: float = 0.95) -> CriticalBatch:
    """Fit to the steps that runs of different batch sizes took to the same loss or accuracy.

    Raises FitError for fewer than two different batches, or numbers that are not positive.
    """
    b, s = positive_array(MODEL, "batches", batches), positive_array(MODEL, "steps", steps)
    same_length(MODEL, {"batches": b, "steps": s})
    require_points(MODEL, len(set(b.tolist())), 2, "different batches")
    rows = np.stack([np.ones_like(b), 1 / b], axis=1) / s[:, None]
    linear = nonnegative(rows, np.ones(len(s)), ("s_min", "product"))
    s_min, product = linear.parameters(("steps", "samples"), level)
    return CriticalBatch(
        parameters=(s_min, _ratio(product, s_min)),
        residuals=tuple(float(e) for e in rows @ linear.values - 1),
        held_out=leave_out(rows, b, 2),
        _linear=linear,
    )


@dataclass(frozen=True)
class BestBatch:
    """The batch per worker with the highest goodput (samples/s, each weighted by its progress)."""

    workers: int
    nodes: int
    batch: int
    accumulation: int
    throughput: float
    efficiency: float
    goodput: float


def best_batch(
    fit: OverlapFit,
    noise: GradientNoise,
    workers: int,
    *,
    nodes: int = 1,
    most_per_worker: int | None = None,
    most: float | None = None,
    accumulate: bool = False,
) -> BestBatch:
    """Search 50 global batches from ``noise.batch`` to ``most``, evenly spaced in ratio, as Pollux does.

    ``most_per_worker`` is what fits into a device; above it micro-batches are taken where ``accumulate``. Raises
    FitError where no batch is left between the limits.
    """
    largest = most if most is not None else 32 * noise.batch
    least = max(noise.batch, workers)
    if largest < least:
        raise FitError(f"{MODEL}: no batch between {least:g} and {largest:g} for {workers} workers")
    batches: list[BestBatch] = []
    for total in np.geomspace(least, largest, _SIZES):
        per_worker, further = _split(float(total) / workers, most_per_worker, accumulate)
        if most_per_worker is not None and per_worker > most_per_worker:
            continue
        rate = fit.throughput(workers, per_worker, nodes=nodes, accumulation=further)
        gain = noise.efficiency(workers * per_worker * (further + 1))
        batches.append(BestBatch(workers, nodes, per_worker, further, rate, gain, rate * gain))
    if not batches:
        raise FitError(f"{MODEL}: {noise.batch:g} samples exceed {workers} workers with at most {most_per_worker} each")
    return max(batches, key=lambda batch: batch.goodput)


def _split(samples: float, most: int | None, accumulate: bool) -> tuple[int, int]:
    further = math.ceil(samples / most - 1e-8) - 1 if most is not None and accumulate else 0
    return math.ceil(samples / (further + 1) - 1e-8), further


def _ratio(product: Parameter, s_min: Parameter) -> Parameter:
    """B_crit = (S_min B_crit)/S_min, its interval from the ends of both: wider than need be."""
    if not product.value or not s_min.value:
        why = "the larger batch saved no step" if not product.value else "no floor"
        return Parameter("b_crit", unit="samples", note=f"{NOT_IDENTIFIABLE}: {why}")
    low = high = None
    if product.low is not None and s_min.high:
        low = product.low / s_min.high
    if product.high is not None and s_min.low is not None:
        high = product.high / s_min.low if s_min.low > 0 else math.inf
    return Parameter("b_crit", product.value / s_min.value, low, high, "samples", product.note)
