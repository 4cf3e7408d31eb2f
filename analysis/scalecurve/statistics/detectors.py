"""What `diagnose` looks for in the step times of one run: drift, a slow rank, stragglers, a short warm-up.

`modes` has the fifth, steps of two kinds.

Each detector is a pure function from an array to a frozen dataclass with one yes-or-no field and the numbers behind
it. A yes needs two things: it is beyond noise (autocorrelation counted), and it is large enough to matter. False
alarms on stationary skewed AR(1) series and hits on planted defects are counted by `benchmarks/coverage.py`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalecurve.statistics.autocorrelation import MAX_BLOCKS, ROUNDING, block_means, long_run_variance, step_series

SIGNIFICANCE = 0.001
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True)
class Drift:
    """`relative` is the fitted change from first to last step over the mean step; `p_value` is two-sided."""

    drifting: bool
    relative: float
    p_value: float


@dataclass(frozen=True, slots=True)
class SlowRanks:
    """`ranks` are the slow ones, slowest first; `excess` holds every rank's median over that of the others, less 1."""

    slow: bool
    ranks: tuple[int, ...]
    excess: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stragglers:
    """`cost` is the share of wall time spent waiting for the slowest rank; `share` the steps that straggle."""

    straggling: bool
    cost: float
    share: float


@dataclass(frozen=True, slots=True)
class WarmUp:
    """`discard` further steps should have been discarded; they are `excess` (relative) slower than the rest."""

    too_short: bool
    discard: int
    excess: float
    bias: float


def drift(durations: ArrayLike, least: float = 0.01) -> Drift:
    """Does step time rise or fall over the run by `least` (relative) or more, beyond noise?

    Ordinary least squares over the step index; the standard error comes from the long-run variance of the residuals
    (autocorrelation-consistent as in Newey and West, Econometrica 55, 1987, with Geyer's choice of lags), and t has
    as many degrees of freedom as the residuals have effective steps, less 2. `durations`: shape (steps,). Strongly
    autocorrelated noise over a short run looks like drift to anyone: with 250 steps at a lag-1 correlation of 0.95
    1 or 2 runs in 100 are called drifting. Raises ValueError for fewer than 10 steps or values that are not finite
    and positive.
    """
    series, _ = block_means(step_series(durations, 10), MAX_BLOCKS)
    mean = float(series.mean())
    time = np.arange(len(series)) - (len(series) - 1) / 2
    time_squares = float(time @ time)
    slope = float(time @ series) / time_squares
    relative = slope * (len(series) - 1) / mean
    noise = _noise(series - mean - slope * time, mean)
    p_value = noise.p_value(slope, 1 / time_squares)
    return Drift(p_value < SIGNIFICANCE and abs(relative) >= least, relative, p_value)


def slow_ranks(medians: ArrayLike, least: float = 0.02) -> SlowRanks:
    """Ranks whose median step is at least `least` (relative) above the median of the other ranks.

    `medians`: shape (ranks,), each rank's own median time before it waits for the others, any number of ranks. With
    four ranks or more a slow one must also stand 3.5 robust deviations (median absolute deviation, Iglewicz and
    Hoaglin, 1993) out of all ranks; with fewer, deviations mean nothing and `least` alone decides. Raises ValueError
    for no rank or values that are not finite and positive.
    """
    times = step_series(medians, 1, "medians")
    count = len(times)
    if count == 1:
        return SlowRanks(False, (), (0.0,))
    excess = times / _median_of_others(times) - 1
    slow = excess >= least
    if count >= 4:
        centre = np.median(times)
        slow &= times - centre > 3.5 * MAD_TO_SIGMA * np.median(np.abs(times - centre))
    ordered = sorted(np.flatnonzero(slow).tolist(), key=lambda rank: (-excess[rank], rank))
    return SlowRanks(bool(ordered), tuple(ordered), tuple(excess.tolist()))


def stragglers(slowest: ArrayLike, median: ArrayLike, least: float = 0.02, late: float = 0.1) -> Stragglers:
    """What the slowest rank of each step costs against the median rank of that step.

    `slowest`, `median`: shape (steps,), the two series a record always holds. `cost` is 1 - Σ median / Σ slowest;
    it straggles from `least` on. `share` counts steps whose slowest rank is more than `late` behind the median.
    Raises ValueError for different lengths, a slowest below its median, or values not finite and positive.
    """
    worst, typical = step_series(slowest, 1, "slowest"), step_series(median, 1, "median")
    if len(worst) != len(typical):
        raise ValueError(f"slowest and median need as many steps each, got {len(worst)} and {len(typical)}")
    if bool((worst < typical).any()):
        raise ValueError(f"slowest is below median at step {int((worst < typical).argmax())}")
    cost = 1 - float(typical.sum()) / float(worst.sum())
    share = float(np.count_nonzero(worst > typical * (1 + late))) / len(worst)
    return Stragglers(cost >= least, cost, share)


def warm_up(durations: ArrayLike, least: float = 0.005) -> WarmUp:
    """Were the first timed steps still warming up, enough to raise the mean step by `least` (relative)?

    The truncation point is MSER's (K. P. White, Simulation 69, 1997: it minimizes the squared standard error of the
    mean of what is left), over at most half of the run, on medians of blocks of 5 steps or more so that a lone hiccup
    is not taken for a warm-up. What is cut must then be slower than the rest beyond its autocorrelated noise.
    `durations`: shape (steps,), the timed steps in order. Raises ValueError for fewer than 20 steps or values that
    are not finite and positive.
    """
    series = step_series(durations, 20)
    length = max(5, -(-len(series) // MAX_BLOCKS))
    blocks = np.median(series[: len(series) // length * length].reshape(-1, length), axis=1)
    cut = _mser(blocks)
    if cut == 0:
        return WarmUp(False, 0, 0.0, 0.0)
    first, rest = float(blocks[:cut].mean()), blocks[cut:]
    steady = float(rest.mean())
    noise = _noise(rest - steady, steady)
    p_value = noise.p_value(first - steady, 1 / cut + 1 / len(rest))
    bias = float(blocks.mean()) / steady - 1
    if bias < least or p_value >= SIGNIFICANCE:
        return WarmUp(False, 0, 0.0, 0.0)
    return WarmUp(True, cut * length, first / steady - 1, bias)


@dataclass(frozen=True, slots=True)
class _Noise:
    """Long-run variance of a stationary series and the number of independent values it is worth."""

    long_run: float
    effective: float

    def p_value(self, difference: float, leverage: float) -> float:
        """Two-sided t test of a contrast with variance `long_run` times `leverage`."""
        from scipy.special import stdtr  # late for the sake of a quick start

        if self.long_run == 0:
            return 1.0 if difference == 0 else 0.0
        return float(2 * stdtr(max(self.effective - 2, 1.0), -abs(difference) / math.sqrt(self.long_run * leverage)))


def _noise(residuals: NDArray[np.float64], scale: float) -> _Noise:
    """`scale` is the level of the series: below its rounding errors there is no noise.

    Removing a fitted line or mean takes from the long-run variance a part of the order of 1/effective. The factor 6
    was chosen by counting false alarms of `drift` on AR(1) series of 50 to 2,000 steps.
    """
    variance = float(residuals @ residuals) / len(residuals)
    if variance <= (ROUNDING * scale) ** 2:
        return _Noise(0.0, float(len(residuals)))
    long_run = max(long_run_variance(residuals), variance)
    inflation = 1 + 6 * long_run / (variance * len(residuals))
    return _Noise(long_run * inflation, len(residuals) * variance / long_run / inflation)


def _mser(blocks: NDArray[np.float64]) -> int:
    """The number of leading blocks to cut: argmin over d ≤ n/2 of Σ (x - mean)² of the rest / (n - d)²."""
    left = np.arange(len(blocks), 0, -1)
    from_end = blocks[::-1] - blocks[-len(blocks) // 2 :].mean()
    sums = np.cumsum(from_end)[::-1]
    squares = np.cumsum(from_end**2)[::-1]
    error = (squares - sums**2 / left) / left**2
    return int(error[: len(blocks) // 2 + 1].argmin())


def _median_of_others(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every rank the median over all other ranks, by taking it out of the sorted times."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    positions = np.arange(len(times))
    lower, upper = (len(times) - 2) // 2, (len(times) - 1) // 2
    others = np.empty_like(times)
    others[order] = (ordered[lower + (positions <= lower)] + ordered[upper + (positions <= upper)]) / 2
    return others
