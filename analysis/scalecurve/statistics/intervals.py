"""Interval estimates of throughput, ratios (speed-up, efficiency, cost) and differences (exposed communication).

The unit of replication is the repetition, and the session where there are several: steps and windows of one run share
its clocks, its placement and its neighbors, and repetitions of one session share machines and time. Each repetition is
reduced to one number, its seconds per sample, and Student's t is used on these few numbers or on their sessions' means
(`spread` has the two levels). What sessions share cancels in ratios and differences, which are formed within each
session. The figures below are printed by `benchmarks/coverage.py`: coverage of the 95 % interval of efficiency, 2,000
draws a case, skewed AR(1) steps; docs/explanation/statistics.md has the other noises and several sessions.

- Two points of one session: Welch's t. For 3 against 3 normal repetitions coverage is 94.1 to 96.5 % at every ratio of
  variances. Tried beside it: a bootstrap of the repetitions covers 76 to 81 %; a pooled variance 95 % when the
  variances agree, 92 % at 1:10, 89 % in the limit; no rule chooses between the two by a test on the same data. E. C.
  Fieller's interval (JRSS B 16, 1954) covers as this one does, within 0.2 points.
- Ratios are formed on the log scale (delta method), where noise that multiplies is symmetric and no interval is
  unbounded or negative, as Fieller's may be.

Where coverage leaves 93-97 %: with 2 repetitions and no curve to take their noise from, 91.3 % (the other side has 3,
and this one has many times its variance) to 97.7 % (2 against 2, equally noisy); with one, where noise grows with the
worker count; 3 noisy repetitions against 5 quiet ones at variances 10:1 come to
93.4 %, or 92.5 % when steps are strongly autocorrelated and skewed, 3 against 10 to 92.8 %; one repetition a fifth as
long as the other two gives about 91 % at 10:1. Within one run windows of 50 steps at a lag-1 correlation of 0.95
cover that run's own mean in about 90 %. An interval is for one point, not for a whole curve at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalecurve.statistics.estimate import LARGEST_PART, Estimate, Method, is_informative
from scalecurve.statistics.kinds import two_kinds
from scalecurve.statistics.spread import Point, Spread, larger, of_two, sessions_of, total, weighted_mean, within

Scale = Callable[[float], float]
Replicates = list[tuple[float, float]]
LARGEST_LOG = 300.0
NO_COMMON_SESSION = "no common session"


@dataclass(frozen=True, slots=True)
class LogRatio:
    """A ratio of throughputs on the log scale; `spread` is None where there is nothing to estimate it from."""

    value: float
    spread: Spread | None
    method: Method
    repetitions: int
    sessions: int = 1


def throughput(point: Point, level: float = 0.95, noise: Spread | None = None) -> Estimate:
    """Samples per second of a point: all samples over all wall time of the timed windows, never a mean of rates.

    `point` holds the point's repetitions (order does not matter). The interval is t on the log of seconds per sample:
    of session means, of the repetitions of one session, or of the windows of one repetition (batch means, marked
    `within-run only`); with one window there is none. `noise` is the variance of one repetition as `spread.pooled`
    finds it over points with the same noise: three repetitions that are all of one kind, fast or slow, do not show
    that there are two, but those of other points do. The variance is never taken to be less than that, nor than the
    scatter within sessions. Raises ValueError for an empty point or a level outside (0, 1).
    """
    _check(level, point)
    rate = _rate(point)
    groups, method = _replicates(point, Method.REPETITIONS)
    sessions = len(sessions_of(point))
    spread = _spread(groups)
    if sessions > 1:
        method, weights = Method.SESSIONS, _shares(groups)
        values = _group_by_session(point, [math.log(wall / samples) for samples, wall in groups])
        means = _session_totals(point)
        spread = larger(level, sessions, _spread(means), within(values, weights))
    if two := of_two(point, noise):
        spread, method = two, Method.POOLED
    elif noise and len(point) > 1:
        shared = Spread(noise.variance * math.fsum(w * w for w in _shares(groups)), noise.degrees)
        spread = larger(level, sessions, spread, shared)
    return positive(rate, spread, level, method, len(point), sessions)


def ratio(
    numerator: Point, denominator: Point, level: float = 0.95, noise: Spread | None = None, *, paired: bool = False
) -> Estimate:
    """Throughput of one point over that of another: speed-up when the denominator is the baseline.

    Two independent points of one session: Welch's t on log seconds per sample, and for a side of two repetitions the
    `noise` of the curve that both are of (`spread.of_two`). Of several: t on the log ratios of the
    sessions that measured both; without such a session nothing is known. `paired=True` is for two measurements made in
    the same trials (windows with and without the all-reduce): repetition i of one belongs to repetition i of the
    other, and what they share cancels. Where either side has one repetition only, the interval is within-run only.
    Raises ValueError as `throughput` does, and for paired points of different numbers of repetitions.
    """
    _check(level, numerator, denominator)
    log_value = log_ratio(numerator, denominator, level, noise, paired=paired)
    first, second = _select_common_sessions(numerator, denominator)
    return positive(
        _rate(first) / _rate(second),
        log_value.spread,
        level,
        log_value.method,
        log_value.repetitions,
        log_value.sessions,
    )


def efficiency(
    point: Point,
    baseline: Point,
    workers: int,
    baseline_workers: int,
    level: float = 0.95,
    noise: Spread | None = None,
) -> Estimate:
    """E(N) = T(N)/T(N0) · N0/N, for strong and weak scaling alike; values above 1 are left as they are.

    A point measured against itself (the same object) is 1 by definition, without uncertainty.
    """
    if workers < 1 or baseline_workers < 1:
        raise ValueError(f"worker counts must be at least 1, got {workers} and baseline {baseline_workers}")
    if point is baseline and workers == baseline_workers:
        _check(level, point)
        return Estimate(1.0, 1.0, 1.0, level, Method.DEFINITION, len(point))
    return ratio(point, baseline, level, noise).scaled(baseline_workers / workers)


def difference(minuend: Point, subtrahend: Point, level: float = 0.95, *, paired: bool = False) -> Estimate:
    """Seconds per sample of one point minus that of another, in seconds (may be negative).

    With `samples` counting steps this is a difference of step times: exposed communication is
    `difference(with_all_reduce, without_all_reduce, paired=True)`, both measured in alternated windows of the same
    trials. Intervals, marks and errors as in `ratio`, on the linear scale; one that reaches further to a side than the
    third of the longer of both times (``LARGEST_PART``) tells nothing.
    """
    _check(level, minuend, subtrahend)
    minuend, subtrahend = _select_common_sessions(minuend, subtrahend)
    times = 1 / _rate(minuend), 1 / _rate(subtrahend)
    value = times[0] - times[1]
    spread, method, sessions = _two_point_spread(minuend, subtrahend, level, float, paired)
    repetitions, half = min(len(minuend), len(subtrahend)), None if spread is None else spread.half_width(level)
    if method is Method.UNKNOWN or (half is not None and half > LARGEST_PART * max(times)):
        return Estimate.not_known(value, level, repetitions, sessions, "" if sessions else NO_COMMON_SESSION)
    low, high = (None, None) if half is None else (value - half, value + half)
    return Estimate(value, low, high, level, method, repetitions, sessions)


def log_ratio(
    numerator: Point, denominator: Point, level: float = 0.95, noise: Spread | None = None, *, paired: bool = False
) -> LogRatio:
    """The log of the ratio of two throughputs with its spread, for tests of change."""
    first, second = _select_common_sessions(numerator, denominator)
    spread, method, sessions = _two_point_spread(first, second, level, math.log, paired, noise)
    value = math.log(_rate(first)) - math.log(_rate(second))
    return LogRatio(value, spread, method, min(len(first), len(second)), sessions)


def _check(level: float, *points: Point) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}")
    if not all(len(point) for point in points):
        raise ValueError("a point needs at least one repetition, got none")


def _rate(point: Point) -> float:
    samples = math.fsum(repetition.total_samples for repetition in point)
    return samples / math.fsum(repetition.total_wall_s for repetition in point)


def _select_common_sessions(first: Point, second: Point) -> tuple[Point, Point]:
    """Both points in the sessions that measured both; as they are where there is none."""
    common = {r.session for r in first} & {r.session for r in second}
    if not common:
        return first, second
    return [r for r in first if r.session in common], [r for r in second if r.session in common]


def _replicates(point: Point, across: Method) -> tuple[Replicates, Method]:
    """(samples, wall time) of each repetition or, for want of more than one, of each window."""
    if len(point) > 1:
        return [(repetition.total_samples, repetition.total_wall_s) for repetition in point], across
    windows = list(zip(point[0].samples, point[0].wall_s, strict=True))
    return windows, Method.WITHIN_RUN if len(windows) > 1 else Method.NONE


def _two_point_spread(
    first: Point, second: Point, level: float, scale: Scale, paired: bool, noise: Spread | None = None
) -> tuple[Spread | None, Method, int]:
    """The spread of scale(seconds per sample) of one point minus that of the other, and over how many sessions."""
    if paired and len(first) != len(second):
        raise ValueError(f"paired points need as many repetitions each, got {len(first)} and {len(second)}")
    sessions = sessions_of(first).keys()
    if sessions != sessions_of(second).keys():
        return None, Method.UNKNOWN, 0
    across = Method.PAIRED if paired else Method.WELCH
    groups_first, method_first = _replicates(first, across)
    groups_second, method_second = _replicates(second, across)
    methods = (method_first, method_second)
    method = next((kept for kept in (Method.NONE, Method.WITHIN_RUN) if kept in methods), across)
    if method is Method.NONE:
        return None, method, 1
    if len(sessions) > 1:
        between = _spread_of_pairs(_session_totals(first), _session_totals(second), scale)
        # A point with runs of two kinds has means of few values: those of three sessions tie, and show no spread.
        mixed = {found.point for found in two_kinds([first, second], least=0.0)}
        inside = (
            _spread_within_sessions(first, second, scale, paired) if len(sessions) == 2 or len(mixed) == 1 else None
        )
        return larger(level, len(sessions), between, inside), Method.SESSIONS, len(sessions)
    if paired and len(groups_first) == len(groups_second):
        return _spread_of_pairs(groups_first, groups_second, scale), method, 1
    of_curve = [of_two(point, noise) if method is Method.WELCH else None for point in (first, second)]
    if noise and all(of_curve):  # one estimate, used twice
        return Spread(math.fsum(part.variance for part in of_curve if part), noise.degrees), Method.POOLED, 1
    alone = (_spread(groups_first, scale), _spread(groups_second, scale))
    parts = [part for part in (two or own for two, own in zip(of_curve, alone, strict=True)) if part]
    return total(parts), Method.POOLED if any(of_curve) else method, 1


def _spread_within_sessions(first: Point, second: Point, scale: Scale, paired: bool) -> Spread | None:
    sides = [_replicates(point, Method.WELCH)[0] for point in (first, second)]
    values = [[scale(wall / samples) for samples, wall in side] for side in sides]
    if paired:
        gaps = [one - other for one, other in zip(*values, strict=True)]
        return within(_group_by_session(first, gaps), _shares(sides[0]))
    parts = [
        within(_group_by_session(point, of), _shares(side))
        for point, of, side in zip((first, second), values, sides, strict=True)
    ]
    known = [part for part in parts if part]
    return total(known) if len(known) == 2 else None


def _group_by_session(point: Point, values: Sequence[float]) -> list[list[float]]:
    by_session: dict[int, list[float]] = {}
    for repetition, value in zip(point, values, strict=True):
        by_session.setdefault(repetition.session, []).append(value)
    return list(by_session.values())


def _session_totals(point: Point) -> Replicates:
    return [
        (math.fsum(r.total_samples for r in repetitions), math.fsum(r.total_wall_s for r in repetitions))
        for repetitions in sessions_of(point).values()
    ]


def _spread(groups: Replicates, scale: Scale = math.log) -> Spread | None:
    if len(groups) < 2:
        return None
    return weighted_mean([scale(wall / samples) for samples, wall in groups], _shares(groups))


def _spread_of_pairs(first: Replicates, second: Replicates, scale: Scale) -> Spread:
    gaps = [
        scale(wall / samples) - scale(other_wall / other_samples)
        for (samples, wall), (other_samples, other_wall) in zip(first, second, strict=True)
    ]
    weights = [(a + b) / 2 for a, b in zip(_shares(first), _shares(second), strict=True)]
    return weighted_mean(gaps, weights)


def _shares(groups: Replicates) -> list[float]:
    samples = math.fsum(samples for samples, _ in groups)
    return [part / samples for part, _ in groups]


def positive(
    value: float, spread: Spread | None, level: float, method: Method, repetitions: int, sessions: int
) -> Estimate:
    """The estimate of a value whose log has `spread`; without an interval where that would tell nothing."""
    if method is Method.UNKNOWN:
        return Estimate.not_known(value, level, repetitions, sessions, NO_COMMON_SESSION)
    if spread is None or method is Method.NONE:
        return Estimate(value, None, None, level, method, repetitions, sessions)
    half = spread.half_width(level)
    low, high = (0.0, math.inf) if half > LARGEST_LOG else (value * math.exp(-half), value * math.exp(half))
    if not is_informative(low, high):
        wide = (low, high) if low > 0 and high < math.inf else None
        return Estimate.not_known(value, level, repetitions, sessions, wide=wide)
    return Estimate(value, low, high, level, method, repetitions, sessions)
