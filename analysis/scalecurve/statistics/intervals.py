"""Interval estimates of throughput, ratios (speed-up, efficiency, cost) and differences (exposed communication).

The unit of replication is the repetition: steps and windows of one run share its clocks, its placement and its
neighbors, and are autocorrelated besides, so they say little about the next run. Each repetition is reduced to one
number, its seconds per sample, and Student's t is used on these few numbers. The figures below are printed by
`benchmarks/coverage.py`: coverage of the 95 % interval of efficiency, 2,000 draws a case, skewed AR(1) steps.

Sources
- B. L. Welch, "The generalization of 'Student's' problem when several different population variances are involved",
  Biometrika 34 (1947), and F. E. Satterthwaite, Biometrics Bulletin 2 (1946): two means with unequal variances, the
  degrees of freedom of `_difference_of_means`. For 3 against 3 normal repetitions coverage is 94.1 to 96.5 % at
  every ratio of variances. Tried beside it: a bootstrap of the repetitions covers 76 to 81 %; a pooled variance 95 %
  when the variances agree, 92 % at 1:10, 89 % in the limit; no rule chooses between the two by a test on the same
  data. E. C. Fieller's interval (JRSS B 16, 1954) covers as this one does, within 0.2 points.
- Ratios are formed on the log scale (delta method), where noise that multiplies is symmetric and no interval is
  unbounded or negative, as Fieller's may be.
- R. M. Bell and D. F. McCaffrey, Survey Methodology 28 (2002): the variance of few unequally weighted clusters, in
  `_weighted_mean`.

Where coverage leaves 93-97 %: with 2 repetitions, 91.3 % (the other side has 3, and this one has many times its
variance) to 97.7 % (2 against 2, equally noisy); 3 noisy repetitions against 5 quiet ones at variances 10:1 come to
93.4 %, or 92.5 % when steps are strongly autocorrelated and skewed, 3 against 10 to 92.8 %; one repetition a fifth as
long as the other two gives about 91 % at 10:1. Within one run windows of 50 steps at a lag-1 correlation of 0.95
cover that run's own mean in about 90 %. An interval is for one point, not for a whole curve at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalecurve.statistics.estimate import Estimate, Method, RepetitionTotals

Point = Sequence[RepetitionTotals]
LARGEST_LOG = 300.0


@dataclass(frozen=True, slots=True)
class Spread:
    """The sampling variance of a mean and the degrees of freedom it was found with."""

    variance: float
    degrees: float


@dataclass(frozen=True, slots=True)
class LogRatio:
    """A ratio of throughputs on the log scale; `spread` is None where there is nothing to estimate it from."""

    value: float
    spread: Spread | None
    method: Method
    repetitions: int


def throughput(point: Point, level: float = 0.95) -> Estimate:
    """Samples per second of a point: all samples over all wall time of the timed windows, never a mean of rates.

    `point` holds the point's repetitions (order does not matter). With two or more repetitions the interval is t on
    the log of their seconds per sample; with one it is t on its windows (batch means) and marked `within-run only`;
    with one window there is none. Raises ValueError for an empty point or a level outside (0, 1).
    """
    _check(level, point)
    rate = _rate(point)
    groups, method = _replicates(point, Method.REPETITIONS)
    spread = _spread(groups, math.log)
    return Estimate(rate, *_limits_of_positive(rate, spread, level), level, method, len(point))


def ratio(numerator: Point, denominator: Point, level: float = 0.95, *, paired: bool = False) -> Estimate:
    """Throughput of one point over that of another: speed-up when the denominator is the baseline.

    Two independent points: Welch's t on log seconds per sample. `paired=True` is for two measurements made in the
    same trials (windows with and without the all-reduce): repetition i of one belongs to repetition i of the other,
    and what they share cancels. Where either side has one repetition only, the interval is within-run only.
    Raises ValueError as `throughput` does, and for paired points of different numbers of repetitions.
    """
    _check(level, numerator, denominator)
    log_value = log_ratio(numerator, denominator, paired=paired)
    value = _rate(numerator) / _rate(denominator)
    return Estimate(
        value, *_limits_of_positive(value, log_value.spread, level), level, log_value.method, log_value.repetitions
    )


def efficiency(
    point: Point, baseline: Point, workers: int, baseline_workers: int, level: float = 0.95, *, paired: bool = False
) -> Estimate:
    """E(N) = T(N)/T(N0) · N0/N, for strong and weak scaling alike; values above 1 are left as they are.

    A point measured against itself (the same object) is 1 by definition, without uncertainty.
    """
    if workers < 1 or baseline_workers < 1:
        raise ValueError(f"worker counts must be at least 1, got {workers} and baseline {baseline_workers}")
    if point is baseline and workers == baseline_workers:
        _check(level, point)
        return Estimate(1.0, 1.0, 1.0, level, Method.DEFINITION, len(point))
    return ratio(point, baseline, level, paired=paired).scaled(baseline_workers / workers)


def difference(minuend: Point, subtrahend: Point, level: float = 0.95, *, paired: bool = False) -> Estimate:
    """Seconds per sample of one point minus that of another, in seconds (may be negative).

    With `samples` counting steps this is a difference of step times: exposed communication is
    `difference(with_all_reduce, without_all_reduce, paired=True)`, both measured in alternated windows of the same
    trials. Intervals, marks and errors as in `ratio`, on the linear scale.
    """
    _check(level, minuend, subtrahend)
    value = 1 / _rate(minuend) - 1 / _rate(subtrahend)
    spread, method = _two_point_spread(minuend, subtrahend, float, paired)
    half = _half_width(spread, level)
    low, high = (None, None) if half is None else (value - half, value + half)
    return Estimate(value, low, high, level, method, min(len(minuend), len(subtrahend)))


def log_ratio(numerator: Point, denominator: Point, *, paired: bool = False) -> LogRatio:
    """The log of the ratio of two throughputs with its spread, for tests of change."""
    spread, method = _two_point_spread(numerator, denominator, math.log, paired)
    return LogRatio(
        math.log(_rate(numerator)) - math.log(_rate(denominator)),
        spread,
        method,
        min(len(numerator), len(denominator)),
    )


def student_quantile(degrees: float, level: float) -> float:
    """The two-sided Student t quantile: |t| stays below it with probability `level`."""
    from scipy.special import stdtrit  # importing scipy takes a tenth of a second: only once one is wanted

    return float(stdtrit(degrees, (1 + level) / 2))


Replicates = list[tuple[float, float]]
Scale = Callable[[float], float]


def _check(level: float, *points: Point) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}")
    if not all(len(point) for point in points):
        raise ValueError("a point needs at least one repetition, got none")


def _rate(point: Point) -> float:
    samples = math.fsum(repetition.total_samples for repetition in point)
    return samples / math.fsum(repetition.total_wall_s for repetition in point)


def _replicates(point: Point, across: Method) -> tuple[Replicates, Method]:
    """(samples, wall time) of each repetition or, for want of more than one, of each window."""
    if len(point) > 1:
        return [(repetition.total_samples, repetition.total_wall_s) for repetition in point], across
    windows = list(zip(point[0].samples, point[0].wall_s, strict=True))
    return windows, Method.WITHIN_RUN if len(windows) > 1 else Method.NONE


def _two_point_spread(first: Point, second: Point, scale: Scale, paired: bool) -> tuple[Spread | None, Method]:
    """The spread of scale(seconds per sample) of one point minus that of the other."""
    if paired and len(first) != len(second):
        raise ValueError(f"paired points need as many repetitions each, got {len(first)} and {len(second)}")
    across = Method.PAIRED if paired else Method.WELCH
    groups_first, method_first = _replicates(first, across)
    groups_second, method_second = _replicates(second, across)
    methods = (method_first, method_second)
    method = next((kept for kept in (Method.NONE, Method.WITHIN_RUN) if kept in methods), across)
    if method is Method.NONE:
        return None, method
    if paired and len(groups_first) == len(groups_second):
        return _paired_spread(groups_first, groups_second, scale), method
    return _difference_of_means(_spread(groups_first, scale), _spread(groups_second, scale)), method


def _spread(groups: Replicates, scale: Scale) -> Spread | None:
    if len(groups) < 2:
        return None
    return _weighted_mean([scale(wall / samples) for samples, wall in groups], _shares(groups))


def _paired_spread(first: Replicates, second: Replicates, scale: Scale) -> Spread:
    gaps = [
        scale(wall / samples) - scale(other_wall / other_samples)
        for (samples, wall), (other_samples, other_wall) in zip(first, second, strict=True)
    ]
    weights = [(a + b) / 2 for a, b in zip(_shares(first), _shares(second), strict=True)]
    return _weighted_mean(gaps, weights)


def _shares(groups: Replicates) -> list[float]:
    total = math.fsum(samples for samples, _ in groups)
    return [samples / total for samples, _ in groups]


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> Spread:
    """Variance of Σ w·y of independent clusters y with Σ w = 1, on n - 1 degrees of freedom.

    Squared residuals are divided by what makes them unbiased when all clusters have the same variance (CR2 with an
    identity working covariance). Equal weights give s²/n exactly. Unequal weights come of repetitions of unequal
    length: the ratio of sums weighs them so. Bell and McCaffrey's own degrees of freedom (below n - 1 then) were
    tried and cover too much, up to 98.9 %.
    """
    offsets = [y - values[0] for y in values]  # equal values have no variance, not even that of rounding
    centre = math.fsum(w * y for w, y in zip(weights, offsets, strict=True))
    squares = math.fsum(w * w for w in weights)
    variance = math.fsum(
        w * w * (y - centre) ** 2 / ((1 - w) ** 2 + (squares - w * w)) for w, y in zip(weights, offsets, strict=True)
    )
    return Spread(variance, len(values) - 1)


def _difference_of_means(first: Spread | None, second: Spread | None) -> Spread | None:
    """Welch-Satterthwaite: variances add, degrees = (v1 + v2)² / (v1²/f1 + v2²/f2)."""
    if first is None or second is None:
        return None
    variance = first.variance + second.variance
    if variance == 0:
        return Spread(0.0, first.degrees + second.degrees)
    share = first.variance / variance
    return Spread(variance, 1 / (share**2 / first.degrees + (1 - share) ** 2 / second.degrees))


def _half_width(spread: Spread | None, level: float) -> float | None:
    return None if spread is None else student_quantile(spread.degrees, level) * math.sqrt(spread.variance)


def _limits_of_positive(value: float, spread: Spread | None, level: float) -> tuple[float | None, float | None]:
    """The limits of a value whose log has `spread`; from 0 to infinity where the data say nothing at all."""
    half = _half_width(spread, level)
    if half is None:
        return None, None
    if half > LARGEST_LOG:
        return 0.0, math.inf
    return value * math.exp(-half), value * math.exp(half)
