"""Where one regime of latency and bandwidth ends and the next begins: libraries switch protocol with message size.

NCCL picks the fastest of low-latency and high-bandwidth protocols by its own linear model (tuning.cc), so time over
size is piecewise. Pieces are contiguous in size; all divisions into up to ``most`` of them are compared by squared
relative error (dynamic programming), on running sums that make fitting a piece cheap.
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scalecurve_models.fitting.least_squares import Array

FEWEST = 3  # sizes in a piece: two are always fitted exactly
_RIDGE = 1e-13


def piece_errors(size_of: NDArray[np.intp], rows: Array, count: int) -> Array:
    """Squared error of the best non-negative fit of ``rows @ x = 1`` to every range of sizes, shape (first, last).

    ``size_of`` gives each row's size as an index below ``count``; infinite where a range has too few sizes.
    """
    width = rows.shape[1]
    scale = np.abs(rows).max(axis=0)
    scaled = rows / np.where(scale > 0, scale, 1.0)
    products = (scaled[:, :, None] * scaled[:, None, :]).reshape(len(rows), -1)
    summed = _sum_ranges(np.concatenate([products, scaled, np.ones((len(rows), 1))], axis=1), size_of, count)
    gram = summed[..., : width * width].reshape(count, count, width, width)
    target, total = summed[..., width * width : -1], summed[..., -1]
    best = total.copy()  # of x = 0
    for size in range(1, width + 1):
        for chosen in map(list, combinations(range(width), size)):
            # Every set of nonzero parameters: the best nonnegative solution is among them.
            some = gram[..., chosen, :][..., chosen] + _RIDGE * np.eye(size)
            values = np.linalg.solve(some, target[..., chosen, None])[..., 0]
            error = total - (values * target[..., chosen]).sum(axis=-1)
            best = np.where((values >= 0).all(axis=-1) & (error < best), error, best)
    sizes = np.arange(count)[None, :] - np.arange(count)[:, None] + 1
    errors: Array = np.where(sizes >= FEWEST, np.maximum(best, 0.0), np.inf)
    return errors


def _sum_ranges(values: Array, size_of: NDArray[np.intp], count: int) -> Array:
    """Sum over every range of sizes; the shape is (first, last, columns)."""
    by_size = np.zeros((count + 1, values.shape[1]))
    np.add.at(by_size, size_of + 1, values)
    running = by_size.cumsum(axis=0)
    sums: Array = running[None, 1:, :] - running[:-1, None, :]
    return sums


def divisions(errors: Array, most: int) -> list[tuple[tuple[int, int], ...]]:
    """The best division into 1, 2, … ``most`` pieces, each piece as (first, last) size; fewer where sizes run out."""
    count = len(errors)
    best = [errors[0]]
    origin: list[NDArray[np.intp]] = [np.zeros(count, dtype=np.intp)]
    for _ in range(1, most):
        before = np.concatenate([[np.inf], best[-1][:-1]])
        total = before[:, None] + errors
        origin.append(total.argmin(axis=0))
        best.append(total.min(axis=0))
    out = []
    for pieces in range(1, most + 1):
        if not np.isfinite(best[pieces - 1][-1]):
            break
        last, division = count - 1, []
        for level in range(pieces - 1, -1, -1):
            first = int(origin[level][last])
            division.append((first, last))
            last = first - 1
        out.append(tuple(reversed(division)))
    return out
