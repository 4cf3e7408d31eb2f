"""Has a point changed beyond noise? Tests of the ratio of two throughputs, over any number of points at once.

Two runs on other days or machines differ by more than their repetitions: with sessions that differ by 0.5 % and
repetitions by 0.1 %, a test on the repetitions alone calls two of three comparisons of equal things a change. So a
change is decided by pairs of one session in which both sides ran in turns, or against what is known of the spread
between sessions: from several sessions on a side, from earlier bundles, or as the user states it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scalecurve.statistics.estimate import LARGEST_FACTOR, Estimate, Method
from scalecurve.statistics.intervals import log_ratio, positive, ratio
from scalecurve.statistics.spread import Point, Spread, pooled, sessions_of, total, wider

POWER = 0.8
DEFAULT_THRESHOLD = 0.01
KNOWN = 1e9  # degrees of freedom of a spread that is not estimated


class Basis(StrEnum):
    """What a comparison is decided by."""

    TURNS = "runs by turns in one session"
    SESSIONS = "spread between sessions"
    NONE = "one session on either side: not decidable across sessions"
    ALONE = "only one repetition on one side"


@dataclass(frozen=True, slots=True)
class Pair:
    """A point on both sides."""

    before: Point
    after: Point
    in_turns: bool = False
    """Both were measured in the same session by turns."""
    between: Spread | None = None
    """Variance of the log of a session's throughput, if it is known from elsewhere."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one point.

    `ratio` is throughput now over throughput before, its interval for this point alone. `p_value` is two-sided and
    for this point alone, `adjusted_p` after Holm over all points compared together. `changed` is None, undecided,
    where `basis` has nothing to decide by. `detectable` is the smallest relative change that about three of four such
    comparisons would find. `past_threshold` needs a change and a ratio at least `threshold` away from 1.
    """

    ratio: Estimate
    p_value: float | None
    adjusted_p: float | None
    changed: bool | None
    basis: Basis
    detectable: float | None
    threshold: float
    past_threshold: bool

    @property
    def slower(self) -> bool:
        return self.ratio.value < 1


def changes(pairs: Sequence[Pair], level: float = 0.95, threshold: float = DEFAULT_THRESHOLD) -> list[Change]:
    """What changed at every point that two bundles share, in the same order.

    Student's t on the log ratio gives each point's p value. Over the points S. Holm's step-down correction is used
    (Scandinavian Journal of Statistics 6, 1979) and not Benjamini-Hochberg: the answer is a gate (an exit code), so
    the chance of even one false alarm in a whole comparison is what must stay below 1 - level; Holm promises that
    whatever the dependence between points of one machine, and points are few. Undecided points are not counted.

    `threshold` is relative and applies to the point estimate, faster or slower. Its default is one percent: sessions on
    equal machines differ by up to 0.9 % (docs/evidence/h200), so a smaller change, real or not, is none that a second
    session would confirm. Raises ValueError for a negative or infinite threshold and as `ratio` does.
    """
    if not (math.isfinite(threshold) and threshold >= 0):
        raise ValueError(f"threshold must be a finite fraction of at least 0, got {threshold!r}")
    judged = [_judge(pair, level) for pair in pairs]
    decided = sum(spread is not None for _, spread, _ in judged)
    p_values = [p_value(math.log(estimate.value), spread) for estimate, spread, _ in judged]
    out = []
    for (estimate, spread, basis), p, adjusted in zip(judged, p_values, holm(p_values), strict=True):
        beyond_noise = None if adjusted is None else adjusted <= 1 - level
        past = bool(beyond_noise) and abs(estimate.value - 1) >= threshold
        smallest = None if spread is None else detectable(spread, 1 - (1 - level) / decided)
        out.append(Change(estimate, p, adjusted, beyond_noise, basis, smallest, threshold, past))
    return out


def between_sessions(points: Sequence[Point]) -> Spread | None:
    """The variance of the log of a session's throughput, over the sessions of points that should be equal.

    Each of `points` is one bundle's; sessions of different bundles are different. None for fewer than two sessions.
    """
    means = [_session_means(point) for point in points]
    flat = [mean for sessions in means for mean in sessions]
    return _variance([flat])


def detectable(spread: Spread, level: float = 0.95) -> float | None:
    """The smallest relative change that is found with probability 80 % where the log ratio has `spread`.

    A spread that is itself estimated from few repetitions is often too small: 70 to 80 % then. None where it is more
    than a factor of ten: such a comparison finds nothing.
    """
    from scipy.special import stdtrit  # late for the sake of a quick start

    reach = stdtrit(spread.degrees, (1 + level) / 2) + stdtrit(spread.degrees, POWER)
    change = float(reach) * math.sqrt(spread.variance)
    return math.expm1(change) if change <= math.log(LARGEST_FACTOR) else None


def p_value(log_ratio: float, spread: Spread | None) -> float | None:
    """Two-sided p of "the ratio is 1"; None without a spread. Without any scatter it is 0 or 1."""
    from scipy.special import stdtr  # late for the sake of a quick start

    if spread is None:
        return None
    if spread.variance == 0:
        return 1.0 if log_ratio == 0 else 0.0
    return float(2 * stdtr(spread.degrees, -abs(log_ratio) / math.sqrt(spread.variance)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p values, in the same order: each may be held against 1 - level directly. None stays None."""
    order = sorted(((p, index) for index, p in enumerate(p_values) if p is not None))
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[index] = largest
    return adjusted


def _judge(pair: Pair, level: float) -> tuple[Estimate, Spread | None, Basis]:
    """The ratio, the spread that decides over it (None: undecided), and by what."""
    if pair.in_turns:
        # Welch's t, not pairs: with 3 on 3 it finds a change a third smaller; what both share makes it cautious only.
        estimate = ratio(pair.after, pair.before, level)
        if min(len(pair.before), len(pair.after)) < 2:
            return estimate, None, Basis.ALONE
        return estimate, log_ratio(pair.after, pair.before, level).spread, Basis.TURNS
    value = _rate(pair.after) / _rate(pair.before)
    sides = (sessions_of(pair.before), sessions_of(pair.after))
    repetitions, sessions = min(len(pair.before), len(pair.after)), min(map(len, sides))
    spread = _across_sessions(pair, level)
    if spread is None:
        return Estimate(value, None, None, level, Method.UNKNOWN, repetitions, sessions), None, Basis.NONE
    estimate = positive(value, spread, level, Method.SESSIONS, repetitions, sessions)
    return estimate, spread, Basis.SESSIONS


def _across_sessions(pair: Pair, level: float) -> Spread | None:
    sides = (pair.before, pair.after)
    shares = math.fsum(1 / len(sessions_of(side)) for side in sides)
    noise = pooled(sides)
    inside = noise and Spread(noise.variance * math.fsum(1 / len(side) for side in sides), noise.degrees)
    if pair.between and pair.between.degrees >= KNOWN:
        stated = Spread(pair.between.variance * shares, KNOWN)
        return total([stated, inside]) if inside else None
    between = _together(pair.between, _variance([_session_means(side) for side in sides]))
    # The means of sessions scatter by their repetitions, too: these are in `between` already.
    return between and wider(level, Spread(between.variance * shares, between.degrees), inside)


def _together(*spreads: Spread | None) -> Spread | None:
    known = [spread for spread in spreads if spread]
    degrees = sum(spread.degrees for spread in known)
    return Spread(sum(s.variance * s.degrees for s in known) / degrees, degrees) if known else None


def _session_means(point: Point) -> list[float]:
    return [math.log(_rate(repetitions)) for repetitions in sessions_of(point).values()]


def _variance(sides: Sequence[Sequence[float]]) -> Spread | None:
    """The variance of values about the mean of their side."""
    degrees = sum(len(side) - 1 for side in sides if side)
    if not degrees:
        return None
    squares = math.fsum((value - math.fsum(side) / len(side)) ** 2 for side in sides for value in side)
    return Spread(squares / degrees, degrees)


def _rate(point: Point) -> float:
    return math.fsum(r.total_samples for r in point) / math.fsum(r.total_wall_s for r in point)
