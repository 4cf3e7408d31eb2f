"""When did a level change? Change points of several curves over the same sessions, with a stated rate of false alarms.

Each session gives one value for each curve (the mean log throughput of a point): repetitions within a session share
its machine, clocks and neighbors, so they are no further evidence. Under "nothing changed" the order of the sessions
says nothing, and every order is as likely as the one that was seen. So a permutation test is exact, whatever the
distribution of the sessions, with one condition: they must be exchangeable. A slow drift, which is none, is found as
one or several changes.

- The statistic of a curve is that of circular binary segmentation (A. B. Olshen, E. S. Venkatraman, R. Lucito and
  M. Wigler, Biostatistics 5, 2004): the largest standardized difference between an interval of sessions and all
  others. It finds a step, and also a dip that was repaired, which a search for one step overlooks.
- All curves of an experiment are permuted together, and each is held against the largest statistic of all (P. H.
  Westfall and S. S. Young, Resampling-Based Multiple Testing, 1993). So the chance of any false change in an
  experiment in which nothing changed is at most `alpha`, however many curves it has and however they depend.
- What a change leaves on either side is searched again, by the same test, until nothing is found.
- Where the change was: every place that a permutation test within the two stretches does not reject (as D. V. Hinkley,
  Biometrika 57, 1970, inverts the likelihood ratio; here without a normal distribution).

`docs/evidence/printed/explanation/scripts/history.py` prints the rates of false alarms and of detection that this has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.intervals import positive
from scalecurve.statistics.spread import Spread, sum_of_squares, total

ALPHA = 0.05
LEAST_SESSIONS = 9
"""Fewer have too few orders: of 8, even a perfect step has a p value of 4 in 70."""
LEAST_STRETCH = 2
"""Sessions on either side of a change: one session that differs may be an accident of its own."""
PERMUTATIONS = 999
PLACES = 199
"""Permutations for each place that a change may have had."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A level that differs from the one before, from session `at` on; sessions are counted over all of the curves.

    `first` and `last` are the earliest and the latest session that may have been the first of the new level, at
    confidence 1 - alpha. `ratio` is the level after over the one before, with its interval over sessions; `p_value`
    holds for all curves that were searched together.
    """

    curve: int
    at: int
    first: int
    last: int
    ratio: Estimate
    p_value: float


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive sessions of one curve between two changes: their numbers, and their values."""

    curve: int
    sessions: tuple[int, ...]
    values: tuple[float, ...]


def change_points(
    curves: Sequence[Sequence[float | None]], alpha: float = ALPHA, permutations: int = PERMUTATIONS, seed: int = 0
) -> list[ChangePoint]:
    """Every change of every curve, by curve and time.

    `curves` have the log of a session's value for each session, in the order of time; None where it has none. The
    same input gives the same result. Raises ValueError for curves of different lengths, or alpha outside (0, 1).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha!r}")
    if len({len(curve) for curve in curves}) > 1:
        raise ValueError("curves must have an entry for each session, None where it has no value")
    rng = np.random.default_rng(seed)
    edges: dict[int, dict[int, float]] = {index: {} for index in range(len(curves))}
    searched = [_stretch(index, curve, range(len(curve))) for index, curve in enumerate(curves)]
    while searched := [stretch for stretch in searched if len(stretch.values) >= LEAST_SESSIONS]:
        further = []
        for stretch, p_value in _test_stretches(searched, permutations, rng):
            if p_value > alpha:
                continue
            inner = _real_edges(np.array(stretch.values), _widest(stretch.values), alpha, rng)
            for cut in inner:
                edges[stretch.curve][stretch.sessions[cut]] = p_value
            bounds = [0, *inner, len(stretch.values)]
            further += [
                _Stretch(stretch.curve, stretch.sessions[low:high], stretch.values[low:high])
                for low, high in pairwise(bounds)
            ]
        searched = further
    return [
        change
        for index, curve in enumerate(curves)
        for change in _measure_changes(index, curve, edges[index], alpha, rng)
        if change is not None
    ]


def _stretch(index: int, curve: Sequence[float | None], sessions: Sequence[int]) -> _Stretch:
    known = [(session, value) for session in sessions if (value := curve[session]) is not None]
    return _Stretch(index, tuple(session for session, _ in known), tuple(value for _, value in known))


def _test_stretches(
    stretches: Sequence[_Stretch], permutations: int, rng: np.random.Generator
) -> list[tuple[_Stretch, float]]:
    """Each stretch with its p value over all of them: Westfall and Young's single step."""
    last = max(stretch.sessions[-1] for stretch in stretches)
    keys = rng.random((permutations, last + 1))  # one order of all sessions; each stretch has it for its own
    largest = np.zeros(permutations)
    observed = []
    for stretch in stretches:
        values = np.array(stretch.values)
        order = np.argsort(keys[:, stretch.sessions], axis=1)
        largest = np.maximum(largest, _largest(values[order]))
        observed.append(float(_largest(values[None, :])[0]))
    # Ties count against a change; rounding must not decide over them.
    p_values = [(1 + int(np.sum(largest >= value * (1 - 1e-9)))) / (permutations + 1) for value in observed]
    return list(zip(stretches, p_values, strict=True))


def _largest(rows: Array) -> Array:
    """Of each row, the largest share of its squares that a split into sessions [i, j) and all others explains.

    It grows with |t|, so their order is the same. Either part has `LEAST_STRETCH` sessions; what lies before i and
    behind j has as many or, behind j, none: [0, j) and [j, end) are the same split.
    """
    count = rows.shape[1]
    sums, squares = _sums(rows)
    best = np.zeros(len(rows))
    for length in range(LEAST_STRETCH, count - LEAST_STRETCH + 1):
        inside = sums[:, LEAST_STRETCH + length : count - LEAST_STRETCH + 1]
        moved = np.abs(inside - sums[:, LEAST_STRETCH : count - LEAST_STRETCH + 1 - length])
        largest = np.abs(sums[:, count - length])  # of the last `length` sessions: all sums are 0 at the end
        if moved.shape[1]:
            largest = np.maximum(largest, moved.max(axis=1))
        best = np.maximum(best, largest**2 * (count / (length * (count - length))))
    return np.asarray(best / squares)


def _widest(values: Sequence[float]) -> tuple[int, int]:
    """The (i, j) of the split that explains most."""
    count = len(values)
    sums = _sums(np.array([values]))[0][0]
    arcs = [
        (count * (sums[end] - sums[begin]) ** 2 / ((end - begin) * (count - end + begin)), begin, end)
        for begin in range(LEAST_STRETCH, count - LEAST_STRETCH + 1)
        for end in (*range(begin + LEAST_STRETCH, count - LEAST_STRETCH + 1), count)
    ]
    _, begin, end = max(arcs, key=lambda arc: arc[0])
    return begin, end


def _real_edges(values: Array, split: tuple[int, int], alpha: float, rng: np.random.Generator) -> list[int]:
    """Of the edges of a split, those that also part the two stretches beside them; at least the one that does so best.

    A single step is best explained by an interval with one more edge, by chance, in every other draw (Olshen et al.,
    section 3.2, drop it by such a test).
    """
    begin, end = split
    if end == len(values):
        return [begin]
    p_values = {}
    for low, cut, high in ((0, begin, end), (begin, end, len(values))):
        rows = rng.permuted(np.tile(values[low:high], (PERMUTATIONS, 1)), axis=1)
        rows = np.vstack([values[low:high], rows])
        apart = np.abs(rows[:, : cut - low].mean(axis=1) - rows[:, cut - low :].mean(axis=1))
        p_values[cut] = float(np.mean(apart >= apart[0] * (1 - 1e-9)))
    return [cut for cut, p in p_values.items() if p <= max(alpha, min(p_values.values()))]


def _sums(rows: Array) -> tuple[Array, Array]:
    """Sums of the first 0, 1, ... values about the mean of their row, and the squares of these values."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.zeros((len(rows), rows.shape[1] + 1))
    np.cumsum(centred, axis=1, out=sums[:, 1:])
    return sums, np.maximum(np.sum(centred**2, axis=1), 1e-300)


def _measure_changes(
    index: int, curve: Sequence[float | None], edges: dict[int, float], alpha: float, rng: np.random.Generator
) -> list[ChangePoint | None]:
    """Place and size of each change, between the changes beside it."""
    cuts = [0, *sorted(edges), len(curve)]
    out: list[ChangePoint | None] = []
    for before, at, after in zip(cuts, cuts[1:], cuts[2:], strict=False):
        left, right = _stretch(index, curve, range(before, at)), _stretch(index, curve, range(at, after))
        ratio = level_ratio(left.values, right.values, 1 - alpha)
        places = _places(np.array(left.values + right.values), len(left.values), alpha, rng)
        sessions = left.sessions + right.sessions
        out.append(ChangePoint(index, at, sessions[places[0]], sessions[places[-1]], ratio, edges[at]))
    return out


def level_ratio(before: Sequence[float], after: Sequence[float], level: float = 0.95) -> Estimate:
    """The level of some sessions over that of others, each value the log of a session's: Welch's t."""
    value = math.exp(math.fsum(after) / len(after) - math.fsum(before) / len(before))
    fewest = min(len(before), len(after))
    if fewest < 2:
        return Estimate.not_known(value, level, fewest, fewest, "one session")
    parts = [Spread(sum_of_squares(side) / (len(side) - 1) / len(side), len(side) - 1) for side in (before, after)]
    return positive(value, total(parts), level, Method.SESSIONS, fewest, fewest)


def _places(values: Array, at: int, alpha: float, rng: np.random.Generator) -> list[int]:
    """Where the one change of these values may be, `at` included: places that the values do not contradict.

    For each place: how much better the best place explains the values than this one does, against the same for
    permutations within both of its sides, which are what it might as well have been.
    """
    count = len(values)
    cuts = np.arange(LEAST_STRETCH, count - LEAST_STRETCH + 1)
    kept = {at}
    for place in range(LEAST_STRETCH, count - LEAST_STRETCH + 1):
        gain = _gain(values[None, :], cuts, place)[0]
        order = np.argsort(rng.random((PLACES, count)) + (np.arange(count) >= place), axis=1)
        drawn = _gain(values[order], cuts, place)
        if (1 + int(np.sum(drawn >= gain - 1e-12))) / (PLACES + 1) > alpha:
            kept.add(place)
    return sorted(kept)


def _gain(rows: Array, cuts: NDArray[np.int64], place: int) -> Array:
    """The share of the squares that the best cut explains beyond those that the cut at `place` does."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, cuts - 1]
    explained = sums**2 * (count / (cuts * (count - cuts)))
    own = explained[:, place - cuts[0]]
    rest = np.maximum(np.sum(centred**2, axis=1) - own, 1e-300)
    return np.asarray((explained.max(axis=1) - own) / rest)
