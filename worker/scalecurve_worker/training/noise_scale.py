"""The gradient noise scale from squared gradient norms at a small and a large batch.

S. McCandlish et al., "An empirical model of large-batch training", arXiv:1812.06162, appendix A.1.
"""

import math
from collections.abc import Sequence

from scalecurve_api.record.rank import NoiseScaleRow

_Z = 1.959963984540054


def estimate(
    epoch: int, small_batch: int, large_batch: int, small: Sequence[float], large: Sequence[float]
) -> NoiseScaleRow | None:
    """The row of one epoch; None where no step has two finite norms.

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
    mean_gradient2, mean_trace = _mean(gradient2), _mean(trace)
    return NoiseScaleRow(
        epoch=epoch,
        steps=len(pairs),
        small_batch=small_batch,
        large_batch=large_batch,
        small_norm2=_mean([s for s, _ in pairs]),
        large_norm2=_mean([b for _, b in pairs]),
        gradient2=mean_gradient2,
        trace=mean_trace,
        simple=None if bounds is None else max(0.0, mean_trace / mean_gradient2),
        simple_low=None if bounds is None else max(0.0, bounds[0]),
        simple_high=None if bounds is None else max(0.0, bounds[1]),
    )


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> tuple[float, float] | None:
    """Fieller's 95 % interval of mean(over) / mean(under) of pairs; None where unbounded or under is not positive."""
    count = len(over)
    if count < 3:
        return None
    x, y = _mean(over), _mean(under)
    scale = count * (count - 1)
    t2 = _student(count - 1) ** 2
    xx = t2 * sum((each - x) ** 2 for each in over) / scale
    yy = t2 * sum((each - y) ** 2 for each in under) / scale
    xy = t2 * sum((a - x) * (b - y) for a, b in zip(over, under, strict=True)) / scale
    a, b, c = y * y - yy, x * y - xy, x * x - xx
    if y <= 0 or a <= 0:
        return None
    root = math.sqrt(max(0.0, b * b - a * c))
    return (b - root) / a, (b + root) / a


def _student(degrees: int) -> float:
    """The 97.5 % quantile of t by its expansion about the normal one: M. Abramowitz, I. Stegun, 26.7.5."""
    z, n = _Z, float(degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
