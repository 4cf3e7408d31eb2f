"""How far a mean may be off: the variance of few clusters, of two levels of them, and Student's quantile.

Level one are repetitions within a session, level two the sessions. Each level alone gives a valid variance of the mean:
that of the session means holds whatever sessions do, on few degrees of freedom; that of the repetitions within sessions
is a lower bound, on more. `larger` chooses, so session means that are equal by chance never give a variance below what
repetitions justify. So it is with the repetitions of one point and those of its curve.

R. M. Bell and D. F. McCaffrey, Survey Methodology 28 (2002): the variance of few unequally weighted clusters, in
`weighted_mean`. B. L. Welch, Biometrika 34 (1947), and F. E. Satterthwaite, Biometrics Bulletin 2 (1946): `total`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalecurve.statistics.estimate import RepetitionTotals

Point = Sequence[RepetitionTotals]
LEAST_DEGREES = 3  # of a curve's variance that stands in for that of two repetitions
THREE_SESSIONS_LIMIT = 0.83
"""The variance of three session means is used unless it is below this share of the repetitions'. The largest limit that
covers 93.5 % of normal noise or more whatever sessions add, by quadrature (`benchmarks/interval_limits.py`)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The sampling variance of a mean and the degrees of freedom it was found with."""

    variance: float
    degrees: float

    def half_width(self, level: float) -> float:
        return student_quantile(self.degrees, level) * math.sqrt(self.variance)


def student_quantile(degrees: float, level: float) -> float:
    """The two-sided Student t quantile: |t| stays below it with probability `level`."""
    from scipy.special import stdtrit  # importing scipy takes a tenth of a second: only once one is wanted

    return float(stdtrit(degrees, (1 + level) / 2))


def sessions_of(point: Point) -> dict[int, list[RepetitionTotals]]:
    """The repetitions of each session, sessions ascending."""
    by_session: dict[int, list[RepetitionTotals]] = {}
    for repetition in point:
        by_session.setdefault(repetition.session, []).append(repetition)
    return dict(sorted(by_session.items()))


def pooled(points: Iterable[Point]) -> Spread | None:
    """The variance of the log of one repetition's seconds per sample about its session, over points that share noise.

    None unless a session of a point has two repetitions.
    """
    squares, degrees = 0.0, 0
    for point in points:
        for repetitions in sessions_of(point).values():
            logs = [math.log(r.total_wall_s / r.total_samples) for r in repetitions]
            squares += sum_of_squares(logs)
            degrees += len(logs) - 1
    return Spread(squares / degrees, degrees) if degrees else None


def of_two(point: Point, noise: Spread | None) -> Spread | None:
    """The variance of the mean log time of two repetitions of one session, by what their curve knows.

    Two repetitions have one degree of freedom, and Student's quantile of 12.7. `noise` is that of one repetition as
    `pooled` finds it over the curve, this point included. The larger of both variances counts, on the curve's degrees
    of freedom. None for other points, for a curve of fewer than `LEAST_DEGREES`, and for a point that is noisier than
    the others explain (F test at 1 %): then only its own repetitions tell.
    """
    if len(point) != 2 or noise is None or noise.degrees < LEAST_DEGREES or len(sessions_of(point)) != 1:
        return None
    own = sum_of_squares([math.log(r.total_wall_s / r.total_samples) for r in point])
    others = max(0.0, noise.variance * noise.degrees - own) / (noise.degrees - 1)
    if own > others * student_quantile(noise.degrees - 1, 0.99) ** 2:
        return None
    samples = [repetition.total_samples for repetition in point]
    squares = math.fsum(part * part for part in samples) / math.fsum(samples) ** 2
    return Spread(max(own, noise.variance) * squares, noise.degrees)


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> Spread:
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


def within(groups: Iterable[Sequence[float]], weights: Sequence[float]) -> Spread | None:
    """Variance of Σ w·y by the scatter of values about the means of their groups; None if no group has two."""
    groups = list(groups)
    degrees = sum(len(group) - 1 for group in groups)
    if not degrees:
        return None
    variance = math.fsum(map(sum_of_squares, groups)) / degrees
    return Spread(variance * math.fsum(w * w for w in weights), degrees)


def total(spreads: Iterable[Spread]) -> Spread:
    """Welch-Satterthwaite: variances of independent parts add, degrees = (Σ v)² / Σ v²/f."""
    spreads = list(spreads)
    variance = math.fsum(spread.variance for spread in spreads)
    if variance == 0:
        return Spread(0.0, math.fsum(spread.degrees for spread in spreads))
    return Spread(variance, 1 / math.fsum((spread.variance / variance) ** 2 / spread.degrees for spread in spreads))


def larger(level: float, sessions: int, *spreads: Spread | None) -> Spread | None:
    """Of two estimates of one variance, where the truth is the larger of both.

    The one of the larger variance, with its own degrees of freedom: 93 to 97 % for normal noise, as pooling by a
    preliminary test with its limit at F = 1 (T. A. Bancroft, Biometrics 20, 1964). Always to take the wider interval
    would cover up to 99 %. Of two sessions that is taken: one degree of freedom covers 88 % by the other rule. Three
    would cover 92.5 % where sessions add two to three times the variance of the repetitions, so theirs gives way later.
    """
    if sessions == 2:
        return wider(level, *spreads)

    def compared(spread: Spread) -> float:
        means_of_three = sessions == 3 and spread.degrees == 2
        return spread.variance / (THREE_SESSIONS_LIMIT if means_of_three else 1.0)

    return max((spread for spread in spreads if spread), key=compared, default=None)


def wider(level: float, *spreads: Spread | None) -> Spread | None:
    """The one that gives the wider interval."""
    return max((spread for spread in spreads if spread), key=lambda spread: spread.half_width(level), default=None)


def sum_of_squares(values: Sequence[float]) -> float:
    """About their mean; exactly 0 of equal values."""
    offsets = [value - values[0] for value in values]
    centre = math.fsum(offsets) / len(offsets)
    return math.fsum((offset - centre) ** 2 for offset in offsets)
