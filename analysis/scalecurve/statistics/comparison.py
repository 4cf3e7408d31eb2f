"""Has a point changed beyond noise? Tests of the ratio of two throughputs, over any number of points at once.

Two runs on other days or machines differ by more than their repetitions: with sessions that differ by 0.5 % and
repetitions by 0.1 %, a test on the repetitions alone calls two of three comparisons of equal things a change. So a
change is decided by pairs of one session in which both sides ran in turns, or against what is known of the spread
between sessions: from several sessions on a side, from earlier bundles, as the user states it, or by a prior.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scalecurve.statistics.estimate import LARGEST_FACTOR, Estimate, Method
from scalecurve.statistics.intervals import log_ratio, positive, ratio
from scalecurve.statistics.prior import SESSIONS
from scalecurve.statistics.spread import Point, Spread, pooled, sessions_of, total, wider

POWER = 0.8
DEFAULT_THRESHOLD = 0.01
KNOWN = 1e9  # degrees of freedom of a spread that is not estimated
FAR = 0.001
"""A change that the prior allows in so small a share of comparisons needs no second session to be one."""


class Basis(StrEnum):
    """What a comparison is decided by."""

    TURNS = "runs by turns in one session"
    STATED = "spread between sessions as stated"
    SESSIONS = "spread between sessions"
    POOLED = "few sessions, pooled with the prior for sessions of one machine"
    PRIOR = "prior for sessions of one machine"
    ALONE = "only one repetition on one side"


BY_PRIOR = (Basis.PRIOR, Basis.POOLED)


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
    comparisons would find. `past_threshold` needs a change and a ratio at least `threshold` away from 1. `between` is
    the spread of the log of one session's throughput that was used, None by turns. `seen` counts the sessions of the
    later side that are past the threshold in the same direction, each on its own.
    """

    ratio: Estimate
    p_value: float | None
    adjusted_p: float | None
    changed: bool | None
    basis: Basis
    detectable: float | None
    threshold: float
    past_threshold: bool
    between: Spread | None = None
    seen: int = 1

    @property
    def slower(self) -> bool:
        return self.ratio.value < 1

    @property
    def confirmed(self) -> bool:
        """Whether it needs no further session: no prior took part, it is far beyond it, or two sessions show it."""
        far = self.adjusted_p is not None and self.adjusted_p <= FAR
        return self.basis not in BY_PRIOR or self.seen > 1 or far

    @property
    def decided_by(self) -> str:
        """The basis with its size, as "prior for sessions of one machine: 0.9 %, 4 degrees of freedom"."""
        return named(self.basis, self.between)


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
    found = _changes(pairs, level, threshold)
    return [replace(change, seen=seen) for change, seen in zip(found, _seen(pairs, found, level), strict=True)]


def _changes(pairs: Sequence[Pair], level: float, threshold: float) -> list[Change]:
    compared = [_compare(pair, level) for pair in pairs]
    decided = sum(by.spread is not None for _, by in compared)
    p_values = [p_value(math.log(estimate.value), by.spread) for estimate, by in compared]
    out = []
    for (estimate, by), p, adjusted in zip(compared, p_values, holm(p_values), strict=True):
        beyond_noise = None if adjusted is None else adjusted <= 1 - level
        past = bool(beyond_noise) and abs(estimate.value - 1) >= threshold
        smallest = None if by.spread is None else detectable(by.spread, 1 - (1 - level) / decided)
        out.append(Change(estimate, p, adjusted, beyond_noise, by.basis, smallest, threshold, past, by.between))
    return out


def _seen(pairs: Sequence[Pair], together: Sequence[Change], level: float) -> list[int]:
    """In how many sessions of the later side each change is past the threshold, all points held together each time."""
    sessions = [list(sessions_of(pair.after).values()) for pair in pairs]
    most = max(map(len, sessions), default=0)
    if most < 2 or all(change.confirmed for change in together):
        return [1] * len(pairs)
    seen = [0] * len(pairs)
    for at in range(most):
        there = [index for index, own in enumerate(sessions) if at < len(own)]
        alone = _changes(
            [replace(pairs[index], after=sessions[index][at]) for index in there], level, together[0].threshold
        )
        for index, change in zip(there, alone, strict=True):
            seen[index] += change.past_threshold and change.slower == together[index].slower
    return seen


def between_sessions(points: Sequence[Point]) -> Spread | None:
    """The variance of the log of a session's throughput, over the sessions of points that should be equal.

    Each of `points` is one bundle's; sessions of different bundles are different. None for fewer than two sessions.
    """
    means = [_session_means(point) for point in points]
    flat = [mean for sessions in means for mean in sessions]
    return _variance([flat])


def stated(session_sd: float | None) -> Spread | None:
    """The spread between sessions that a user states, as a fraction; raises ValueError where it is none."""
    if session_sd is None:
        return None
    if not 0 < session_sd < 1:
        raise ValueError(f"session_sd must be a fraction between 0 and 1, got {session_sd!r}")
    return Spread(session_sd**2, KNOWN)


def detectable(spread: Spread, level: float = 0.95) -> float | None:
    """The smallest relative change that is found with probability 80 % where the log ratio has `spread`.

    A spread that is itself estimated from few repetitions is often too small: 70 to 80 % then. None where it is more
    than a factor of two: such a comparison finds nothing.
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


@dataclass(frozen=True, slots=True)
class SpreadUsed:
    """The spread of a log ratio that decides over it (None: nothing does), by what, and that of one session in it."""

    spread: Spread | None
    basis: Basis
    between: Spread | None = None

    @property
    def named(self) -> str:
        """The basis with its size."""
        return named(self.basis, self.between)


def named(basis: Basis, *between: Spread | None) -> str:
    """As "prior for sessions of one machine: 0.9 %, 4 degrees of freedom"; of several points the range."""
    known = [spread for spread in between if spread]
    if not known:
        return basis.value
    sds = sorted(100 * math.sqrt(spread.variance) for spread in known)
    least, most = (f"{sd:.2g}" for sd in (sds[0], sds[-1]))
    degrees = min(spread.degrees for spread in known)
    size = f"{basis.value}: {least if least == most else f'{least} to {most}'} %"
    return size if degrees >= KNOWN else f"{size}, {degrees:.3g} degrees of freedom"


def all_named(decided: Sequence[Change] | Sequence[SpreadUsed]) -> tuple[str, ...]:
    """By what these are decided, each basis once."""
    bases = dict.fromkeys(each.basis for each in decided)
    return tuple(named(basis, *(each.between for each in decided if each.basis is basis)) for basis in bases)


def _compare(pair: Pair, level: float) -> tuple[Estimate, SpreadUsed]:
    repetitions = min(len(pair.before), len(pair.after))
    if pair.in_turns:
        # Welch's t, not pairs: with 3 on 3 it finds a change a third smaller; what both share makes it cautious only.
        estimate = ratio(pair.after, pair.before, level)
        if repetitions < 2:
            return estimate, SpreadUsed(None, Basis.ALONE)
        return estimate, SpreadUsed(log_ratio(pair.after, pair.before, level).spread, Basis.TURNS)
    sides = (pair.before, pair.after)
    counts = [len(sessions_of(side)) for side in sides]
    shares, repeats = (math.fsum(1 / count for count in each) for each in (counts, map(len, sides)))
    by = across(pair.between, sides, shares, repeats, level)
    value = _rate(pair.after) / _rate(pair.before)
    if by.spread is None:
        return Estimate.not_known(value, level, repetitions, min(counts), "the spread between sessions"), by
    return positive(value, by.spread, level, Method.SESSIONS, repetitions, min(counts)), by


def across(
    elsewhere: Spread | None, sides: Sequence[Point], shares: float, repeats: float, level: float = 0.95
) -> SpreadUsed:
    """What decides over a difference across sessions.

    Sessions that were measured decide alone where they are worth as many degrees of freedom as the prior, or scatter
    more than it allows (an F test at ``1 - level``); fewer are pooled with it, for one degree finds no change below a
    factor. None where nothing tells how far repetitions differ.

    Args:
        elsewhere: Variance of the log of a session's throughput, as earlier bundles show it or as it is stated.
        sides: Points whose sessions tell it, too.
        shares: How many variances of a session the difference has: 2 with one session on either side.
        repeats: The same of repetitions.
        level: Level of the decision.
    """
    from scipy.special import fdtrc  # late for the sake of a quick start

    noise = pooled(sides)
    inside = noise and Spread(noise.variance * repeats, noise.degrees)
    if elsewhere and elsewhere.degrees >= KNOWN:
        if inside is None:
            return SpreadUsed(None, Basis.ALONE)
        return SpreadUsed(total([_times(elsewhere, shares), inside]), Basis.STATED, elsewhere)
    own = _together(elsewhere, _variance([_session_means(side) for side in sides]))
    # The means of sessions scatter by their repetitions, too: these are in `own` already.
    alone = own and wider(level, _times(own, shares), inside)
    if inside is None:
        return SpreadUsed(alone, Basis.SESSIONS if own else Basis.ALONE, own)
    prior = total([_times(SESSIONS.spread, shares), inside])
    if own is None:
        return SpreadUsed(prior, Basis.PRIOR, SESSIONS.spread)
    doubted = fdtrc(own.degrees, prior.degrees, own.variance * shares / prior.variance) < 1 - level
    if doubted or own.degrees >= SESSIONS.degrees:
        return SpreadUsed(alone, Basis.SESSIONS, own)
    return SpreadUsed(_together(prior, _times(own, shares)), Basis.POOLED, _together(SESSIONS.spread, own))


def _times(spread: Spread, factor: float) -> Spread:
    return Spread(spread.variance * factor, spread.degrees)


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
