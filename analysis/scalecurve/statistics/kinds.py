"""Repetitions of two kinds: is one of a point's runs slow, or are there fast runs and slow runs?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scalecurve.statistics.spread import Point, sessions_of, sum_of_squares


@dataclass(frozen=True, slots=True)
class TwoKinds:
    """`slow` of `repetitions` of a point in a session take `excess` (relative) more time than the others."""

    point: int
    session: int
    slow: int
    repetitions: int
    excess: float


def two_kinds(points: Sequence[Point], least: float = 0.01) -> list[TwoKinds]:
    """The points and sessions whose repetitions fall into a fast and a slow kind; `point` is the index in `points`.

    Repetitions of a session are split at the largest gap of their log times. The gap must be `least` or more, and many
    times the scatter on either side of such gaps, over all points. The limit is the 99 % quantile of the largest such
    ratio for normal noise by simulation, for 1 to 8 groups of 3 to 12 repetitions: about one clean curve in a hundred
    is flagged.
    """
    splits, squares, degrees = [], 0.0, 0
    for index, point in enumerate(points):
        for session, repetitions in sessions_of(point).items():
            times = sorted(math.log(r.total_wall_s / r.total_samples) for r in repetitions)
            if len(times) < 3:
                continue
            cut = max(range(1, len(times)), key=lambda at: times[at] - times[at - 1])  # called at once
            fast, slow = times[:cut], times[cut:]
            squares += sum_of_squares(fast) + sum_of_squares(slow)
            degrees += len(times) - 2
            splits.append((index, session, fast, slow))
    if degrees < 2:
        return []
    scatter = math.sqrt(squares / degrees)
    return [
        TwoKinds(index, session, len(slow), len(fast) + len(slow), math.expm1(fmean(slow) - fmean(fast)))
        for index, session, fast, slow in splits
        if slow[0] - fast[-1] > max(math.log1p(least), scatter * _limit(len(fast) + len(slow), degrees))
    ]


def unseen_share(repetitions: int, level: float = 0.95) -> float:
    """The largest share of slow repetitions that would have shown none among so many with probability 1 - `level`."""
    return float(1 - (1 - level) ** (1 / repetitions))


def _limit(repetitions: int, degrees: int) -> float:
    return (2.5 + 25 / (repetitions - 1)) * (1 + 8 / degrees**2)
