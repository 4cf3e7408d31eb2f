"""Preparing losses for a fit: replace outliers, thin long runs (Optimus, Peng et al., EuroSys 2018, 3.1)."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from scalecurve_models.fitting.least_squares import Array

WINDOW = 5
MOST_POINTS = 1000
FAR = 4.0
_BLOCK = 50
_FINEST = 64
"""A thinned point stands for at most this fraction of its step: over so short a range the curve is a straight line."""


def outliers(losses: Array) -> NDArray[np.bool_]:
    """Points outside [least of the ``WINDOW`` after, largest of the ``WINDOW`` before] and far from their neighbors.

    The first rule is the paper's; a falling curve without noise has no such point, however steep. Alone it would take a
    third of the points of a noisy tail, and with them the noise that intervals need: the second rule keeps those within
    ``FAR`` standard deviations of the scatter around them.
    """
    count = len(losses)
    if count < 3:
        return np.zeros(count, dtype=bool)
    ahead = np.concatenate([losses[1:], np.full(WINDOW, np.inf)])
    behind = np.concatenate([np.full(WINDOW, -np.inf), losses[:-1]])
    least = sliding_window_view(ahead, WINDOW).min(axis=1)[:count]
    most = sliding_window_view(behind, WINDOW).max(axis=1)[:count]
    least = np.where(np.isfinite(least), least, -np.inf)
    most = np.where(np.isfinite(most), most, np.inf)
    flagged: NDArray[np.bool_] = ((losses < least) | (losses > most)) & _far(losses)
    return flagged


def _far(losses: Array) -> NDArray[np.bool_]:
    """Points that differ from the median of their neighbors by more than the scatter of their block."""
    padded = np.pad(losses, 2, mode="reflect")
    # The median of two points to either side: one of them may be bad too.
    near = np.stack([padded[:-4], padded[1:-3], padded[3:-1], padded[4:]])
    gaps = np.abs(losses - np.median(near, axis=0))
    blocks = np.array_split(gaps, max(1, len(gaps) // _BLOCK))
    # For normal noise the median of |gap| is 0.6745 of its deviation.
    limits = np.concatenate([np.full(len(block), FAR / 0.6745 * np.median(block)) for block in blocks])
    far: NDArray[np.bool_] = gaps > limits
    return far


def replace_outliers(losses: Array) -> tuple[Array, int]:
    """Outliers replaced by the average of the nearest regular points to either side, and their number."""
    bad = outliers(losses)
    if not bad.any() or bad.all():
        return losses, 0
    good = np.flatnonzero(~bad)
    where = np.flatnonzero(bad)
    after = np.searchsorted(good, where)
    left = good[np.clip(after - 1, 0, len(good) - 1)]
    right = good[np.clip(after, 0, len(good) - 1)]
    out = losses.copy()
    out[where] = (losses[left] + losses[right]) / 2
    return out, len(where)


def thinned(steps: Array, losses: Array, most: int = MOST_POINTS) -> tuple[Array, Array, Array]:
    """At most about ``most`` points as means of neighbors, and how many points each stands for.

    Neighborhoods grow with the step, as the curve straightens; early points stay as they are.
    """
    count = len(steps)
    if count <= most:
        return steps, losses, np.ones(count)
    # Equal shares of log(step + origin): roughly linear spacing up to the origin, constant ratio after it.
    span = float(steps[-1] - steps[0])
    origin = span / _FINEST
    place = np.log1p((steps - steps[0]) / origin)
    bin_of = np.minimum((place / place[-1] * most).astype(np.intp), most - 1)
    _, bin_of = np.unique(bin_of, return_inverse=True)
    weight = np.bincount(bin_of).astype(np.float64)
    return np.bincount(bin_of, steps) / weight, np.bincount(bin_of, losses) / weight, weight
