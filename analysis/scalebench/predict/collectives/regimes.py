"""Where one pair of α and β ends and the next begins: libraries switch protocol with the message size.

NCCL, for one, takes the fastest of low-latency and high-bandwidth protocols by its own α-β lines (tuning.cc), so the
time over size is made of pieces. Pieces are contiguous in size; all cuts of up to ``most`` pieces are compared by
their squared relative error (dynamic programming), on sums that make each piece's fit cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalebench.predict.fitting import Array

FEWEST = 3
"""Sizes in a piece: two would be fitted exactly, whatever they say."""


@dataclass(frozen=True)
class Lines:
    """For every first and last size the best α, β >= 0 (upper triangles, infinite error elsewhere)."""

    alpha: Array
    beta: Array
    error: Array


def lines(size_of: NDArray[np.intp], messages: Array, sent: Array, count: int) -> Lines:
    """The best line of every range of sizes; rows are (messages/t, bytes sent/t) whose product with (α, β) is 1.

    ``size_of`` gives each row's size as an index below ``count``.
    """
    scale = np.array([np.abs(messages).max() or 1.0, np.abs(sent).max() or 1.0])
    a, b = messages / scale[0], sent / scale[1]
    sums = np.zeros((6, count + 1))
    for row, values in enumerate((a * a, a * b, b * b, a, b, np.ones_like(a))):
        sums[row, 1:] = np.cumsum(np.bincount(size_of, values, count))
    aa, ab, bb, at, bt, tt = sums[:, None, 1:] - sums[:, :-1, None]
    with np.errstate(all="ignore"):
        determinant = aa * bb - ab * ab
        both = (at * bb - bt * ab) / determinant, (bt * aa - at * ab) / determinant
        inside = (determinant > 1e-12 * aa * bb) & (both[0] >= 0) & (both[1] >= 0)
        only_a, only_b = at / aa, bt / bb
        a_is_better = np.nan_to_num(at * only_a) >= np.nan_to_num(bt * only_b)
    alpha = np.where(inside, both[0], np.where(a_is_better, only_a, 0.0))
    beta = np.where(inside, both[1], np.where(a_is_better, 0.0, only_b))
    error = np.maximum(tt - alpha * at - beta * bt, 0.0)
    long_enough = np.subtract.outer(np.arange(count), np.arange(count)).T >= FEWEST - 1
    error = np.where(long_enough, np.nan_to_num(error, nan=np.inf), np.inf)
    return Lines(alpha / scale[0], beta / scale[1], error)


def cuts(error: Array, most: int) -> list[tuple[tuple[int, int], ...]]:
    """The best division into 1, 2, … ``most`` pieces, each piece as (first, last) size; shorter where sizes run out."""
    count = len(error)
    best = [error[0]]
    origin: list[NDArray[np.intp]] = [np.zeros(count, dtype=np.intp)]
    for _ in range(1, most):
        before = np.concatenate([[np.inf], best[-1][:-1]])
        total = before[:, None] + error
        origin.append(total.argmin(axis=0))
        best.append(total.min(axis=0))
    out = []
    for pieces in range(1, most + 1):
        if not np.isfinite(best[pieces - 1][-1]):
            break
        last, found = count - 1, []
        for level in range(pieces - 1, -1, -1):
            first = int(origin[level][last])
            found.append((first, last))
            last = first - 1
        out.append(tuple(reversed(found)))
    return out
