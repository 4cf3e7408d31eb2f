"""Steps of two kinds: does the distribution of step times have two modes?"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalecurve.statistics.autocorrelation import autocorrelation, step_series

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Bimodality:
    """Two kinds of steps. Modes in the unit of the durations, None when there is one mode only.

    `slow_share` is the share of steps above the valley; `valley` is the density there over the lower of both peaks.
    """

    bimodal: bool
    fast_mode: float | None
    slow_mode: float | None
    slow_share: float
    valley: float


ONE_MODE = Bimodality(False, None, None, 0.0, 1.0)


def bimodality(durations: ArrayLike, least: float = 0.03, least_share: float = 0.05) -> Bimodality:
    """Do the steps fall into a fast and a slow kind, modes at least `least` (relative) apart?

    A Gaussian kernel density of log step time with Silverman's bandwidth (Density Estimation, 1986, eq. 3.31) for the
    effective number of steps, so that a wandering series is not called bimodal; autocorrelation is taken within the
    two classes of Otsu's split (IEEE Transactions SMC 9, 1979), so that modes which hold for long are seen. Two modes
    are two peaks with at least `least_share` of the steps, and five effective ones, on either side of a valley at most
    half as high as the lower peak. Long runs are represented by 65,536 steps spread by the golden ratio, which a
    periodic pattern cannot hide from. `durations`: shape (steps,), in order. Raises ValueError for fewer than 20
    steps or values that are not finite and positive.
    """
    series = step_series(durations, 20)
    sample = np.log(_spread_sample(series, 1 << 16))
    low, lower_quartile, upper_quartile, high = np.quantile(sample, (0.005, 0.25, 0.75, 0.995))
    deviation = float(np.clip(sample, low, high).std())
    scales = [scale for scale in (deviation, float(upper_quartile - lower_quartile) / 1.34) if scale > 0]
    if high - low < np.log1p(least) / 2 or not scales:
        return ONE_MODE
    effective = _effective_within_classes(series, float(np.exp(_otsu_split(sample, low, high))))
    bandwidth = max(0.9 * min(scales) * min(effective, len(sample)) ** -0.2, (high - low) / 400)
    grid, density = _kernel_density(sample, low - 4 * bandwidth, high + 4 * bandwidth, bandwidth)
    valley, depth = _deepest_valley(density, max(least_share, 5 / effective))
    fast, slow = grid[density[: valley + 1].argmax()], grid[valley + density[valley:].argmax()]
    if depth > 0.5 or slow - fast < np.log1p(least):
        return ONE_MODE
    share = float(np.count_nonzero(sample > grid[valley])) / len(sample)
    return Bimodality(True, float(np.exp(fast)), float(np.exp(slow)), share, depth)


def _spread_sample(series: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """`most` values spread evenly by multiples of the golden ratio, the same ones every time; all, if fewer."""
    if len(series) <= most:
        return series
    return np.asarray(series[(np.modf(np.arange(most) * GOLDEN)[0] * len(series)).astype(np.int64)])


def _otsu_split(values: NDArray[np.float64], low: float, high: float) -> float:
    """The threshold that maximizes the variance between the two classes it makes, from a histogram of 256 cells."""
    counts, edges = np.histogram(values, bins=256, range=(low, high))
    grid = (edges[1:] + edges[:-1]) / 2 - (low + high) / 2
    below = np.cumsum(counts)[:-1]
    above = counts.sum() - below
    moment = np.cumsum(counts * grid)[:-1]
    gap = moment / np.maximum(below, 1) - ((counts * grid).sum() - moment) / np.maximum(above, 1)
    return float(edges[1:-1][(below * above * gap**2).argmax()])


def _effective_within_classes(series: NDArray[np.float64], threshold: float) -> float:
    """Effective number of steps once the slow class is scaled to the mean of the fast one."""
    slow = series > threshold
    count = int(np.count_nonzero(slow))
    if count in (0, len(series)):
        return autocorrelation(series).effective_steps
    slow_sum = float(series[slow].sum())
    slow_mean, fast_mean = slow_sum / count, (float(series.sum()) - slow_sum) / (len(series) - count)
    return autocorrelation(series / np.where(slow, slow_mean / fast_mean, 1.0)).effective_steps


def _deepest_valley(density: NDArray[np.float64], least_share: float) -> tuple[int, float]:
    """Where the density is lowest against the lower of the peaks on either side, and that ratio (1: no valley)."""
    below = np.cumsum(density) / density.sum()
    peaks = np.minimum(np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1])
    inside = (below >= least_share) & (below <= 1 - least_share)
    depth = np.divide(density, peaks, out=np.ones_like(density), where=inside & (peaks > 0))
    valley = int(depth.argmin())
    return valley, float(depth[valley])


def _kernel_density(
    values: NDArray[np.float64], low: float, high: float, bandwidth: float, cells: int = 2048
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grid and (unnormalized) Gaussian kernel density by a histogram and one convolution."""
    counts, edges = np.histogram(values, bins=cells, range=(low, high))
    grid = (edges[1:] + edges[:-1]) / 2
    reach = int(4 * bandwidth / (edges[1] - edges[0])) + 1
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * (edges[1] - edges[0]) / bandwidth) ** 2)
    return grid, np.convolve(counts, kernel, mode="same")
