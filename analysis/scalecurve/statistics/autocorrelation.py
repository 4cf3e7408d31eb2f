"""How much a series of step times really says: its autocorrelation, and how many independent steps it is worth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_BLOCKS = 4096
ROUNDING = 8 * np.finfo(np.float64).eps  # relative; a series that scatters less is constant


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """`lag1` in [-1, 1]; `effective_steps` in [1, steps], the independent steps that would say as much of the mean."""

    steps: int
    lag1: float
    effective_steps: float


def step_series(durations: ArrayLike, least: int, name: str = "durations") -> NDArray[np.float64]:
    """The step times as a float array; ValueError unless 1-D, at least `least` long, all finite and positive."""
    series = np.asarray(durations, dtype=np.float64)
    if series.ndim != 1 or series.size < least:
        raise ValueError(f"{name} must be one-dimensional with at least {least} entries, got shape {series.shape}")
    # min and max are NaN when any entry is; two passes without a temporary array
    low, high = float(series.min()), float(series.max())
    if not (low > 0 and high < np.inf):
        raise ValueError(f"{name} must be finite and positive, got values from {low!r} to {high!r}")
    return series


def autocorrelation(durations: ArrayLike) -> Autocorrelation:
    """Lag-1 autocorrelation and effective sample size of one rank's or the slowest rank's steps, in order.

    `durations`: shape (steps,), any unit. The effective size is n · variance / long-run variance. A constant series
    has no autocorrelation to speak of: lag1 is 0 and every step counts. Raises ValueError for fewer than 3 steps or
    values that are not finite and positive.
    """
    series = step_series(durations, 3)
    mean = float(series.mean())
    deviations = series - mean
    sum_of_squares = float(deviations @ deviations)
    steps = len(series)
    if sum_of_squares <= steps * (ROUNDING * mean) ** 2:
        return Autocorrelation(steps, 0.0, float(steps))
    lag1 = float(deviations[1:] @ deviations[:-1]) / sum_of_squares
    long_run = long_run_variance(series)
    effective = steps if long_run <= 0 else sum_of_squares / long_run
    return Autocorrelation(steps, lag1, min(max(effective, 1.0), float(steps)))


def long_run_variance(series: NDArray[np.float64]) -> float:
    """n times the variance of the mean of a stationary series of n values, in the square of its unit.

    C. J. Geyer's initial monotone sequence (Statistical Science 7, 1992) on the means of at most 4,096 blocks:
    the long-run variance of block means times the length of a block is that of the series, which keeps half a
    million steps under a few milliseconds.
    """
    blocks, length = block_means(series, MAX_BLOCKS)
    return length * _initial_monotone_sequence(blocks)


def block_means(series: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], int]:
    """Means of at most `most` consecutive blocks of equal length, and that length; a short tail is dropped."""
    length = -(-len(series) // most)
    if length == 1:
        return series, 1
    used = len(series) // length * length
    return np.asarray(series[:used].reshape(-1, length).mean(axis=1)), length


def _initial_monotone_sequence(series: NDArray[np.float64]) -> float:
    count = len(series)
    deviations = series - series.mean()
    spectrum = np.fft.rfft(deviations, 1 << (2 * count - 1).bit_length())
    covariances = np.fft.irfft(spectrum.real**2 + spectrum.imag**2)[:count] / count
    pairs = covariances[: count // 2 * 2].reshape(-1, 2).sum(axis=1)  # lags 0+1, 2+3, ...: positive in theory
    not_positive = np.flatnonzero(pairs <= 0)
    first = int(not_positive[0]) if not_positive.size else len(pairs)
    positive = np.minimum.accumulate(pairs[:first])
    return max(0.0, float(2 * positive.sum() - covariances[0]))
