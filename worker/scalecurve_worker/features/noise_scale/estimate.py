"""The gradient noise scale from squared gradient norms at a small and a large batch.

S. McCandlish et al., "An empirical model of large-batch training", arXiv:1812.06162, appendix A.1.
"""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from scalecurve_api.features.noise_scale.facts import NoiseScaleRow


def estimate(
    epoch: int, small_batch: int, large_batch: int, small: Sequence[float], large: Sequence[float]
) -> NoiseScaleRow | None:
    """Estimate the row of one epoch; None where no step has two finite norms.

    ``small`` and ``large`` are squared norms of the gradient, one of each a step: of the mean over ``small_batch``
    samples (itself averaged over the parts of the large batch), and of that over the ``large_batch`` that they make up.
    With E|G_B|² = |G|² + tr(Σ)/B both, |G|² and tr(Σ), are linear in the two norms and unbiased; their ratio is not,
    so that both are averaged over the epoch first. The interval of the ratio is E. C. Fieller's ("Some problems in
    interval estimation", 1954) of 95 %, steps taken for independent; there is none, and no ratio, where |G|² cannot be
    told from zero.
    """
    if not 0 < small_batch < large_batch:
        raise ValueError(f"batches of {small_batch} and {large_batch}: expected a small and a larger one")
    pairs = [(s, b) for s, b in zip(small, large, strict=True) if math.isfinite(s) and math.isfinite(b)]
    if not pairs:
        return None
    gradient2 = [(large_batch * b - small_batch * s) / (large_batch - small_batch) for s, b in pairs]
    trace = [(s - b) / (1 / small_batch - 1 / large_batch) for s, b in pairs]
    bounds = ratio_interval(trace, gradient2)
    mean_gradient2, mean_trace = fmean(gradient2), fmean(trace)
    return NoiseScaleRow(
        epoch=epoch,
        steps=len(pairs),
        small_batch=small_batch,
        large_batch=large_batch,
        small_norm2=fmean(s for s, _ in pairs),
        large_norm2=fmean(b for _, b in pairs),
        gradient2=mean_gradient2,
        trace=mean_trace,
        simple=None if bounds is None else max(0.0, mean_trace / mean_gradient2),
        simple_low=None if bounds is None else max(0.0, bounds[0]),
        simple_high=None if bounds is None else max(0.0, bounds[1]),
    )


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> tuple[float, float] | None:
    """Compute Fieller's 95 % interval of mean(over) / mean(under); None if unbounded or under is not positive."""
    from scipy.special import stdtrit

    count = len(over)
    if count < 3:
        return None
    x, y = fmean(over), fmean(under)
    (xx, xy), (_, yy) = stdtrit(count - 1, 0.975) ** 2 / count * np.cov(over, under)
    a, b, c = float(y * y - yy), float(x * y - xy), float(x * x - xx)
    if y <= 0 or a <= 0:
        return None
    root = math.sqrt(max(0.0, b * b - a * c))
    return (b - root) / a, (b + root) / a
