"""What goes into an interval and what comes out: totals of repetitions, and an estimate with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scalecurve_api.text import count


class Method(StrEnum):
    """How an interval was found; stands beside every number that is shown."""

    REPETITIONS = "t on repetition means"
    WELCH = "Welch t on repetition means"
    POOLED = "t on repetition means, variance of the curve"
    PAIRED = "paired t on repetition means"
    WITHIN_RUN = "within-run only"
    SESSIONS = "t on session means"
    NONE = "no interval"
    UNKNOWN = "not known"
    DEFINITION = "exact by definition"


LARGEST_FACTOR = 2.0
"""An interval that spans more says that the number is not known, and no surface prints it."""
LARGEST_PART = (LARGEST_FACTOR - 1) / (LARGEST_FACTOR + 1)
"""The same of a difference of two times: its largest half width, as a part of the longer one."""


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether an interval tells anything: both ends are finite, and a positive one spans ``LARGEST_FACTOR`` at most."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return False
    return low <= high <= LARGEST_FACTOR * low if low > 0 else low <= high


@dataclass(frozen=True, slots=True)
class RepetitionTotals:
    """One repetition of a point (one trial): the work and the wall time of each of its timed windows.

    `samples` counts whatever the rate is a rate of (samples over all workers, tokens, or steps when the wanted
    quantity is step time); `wall_s` is in seconds. Both have one entry for each window, any number of windows.
    Repetitions with the same `session` share machines and time. Raises ValueError for no window, different lengths,
    or an entry that is not finite and positive.
    """

    samples: tuple[float, ...]
    wall_s: tuple[float, ...]
    session: int = 0

    def __post_init__(self) -> None:
        if len(self.samples) != len(self.wall_s) or not self.samples:
            raise ValueError(
                "a repetition needs the samples and the wall time of each of one or more windows, got "
                f"{count(len(self.samples), 'sample')} and {len(self.wall_s)} wall times"
            )
        for name, values in (("samples", self.samples), ("wall_s", self.wall_s)):
            for index, value in enumerate(values):
                if not (1e-100 <= value <= 1e100):  # sums and quotients of these stay finite
                    raise ValueError(f"{name}[{index}] must be finite and positive, got {value!r}")

    @classmethod
    def of(cls, samples: Sequence[float], wall_s: Sequence[float], session: int = 0) -> RepetitionTotals:
        return cls(tuple(float(value) for value in samples), tuple(float(value) for value in wall_s), session)

    def slowed(self, factor: float) -> RepetitionTotals:
        """The same work in ``factor`` times the wall time."""
        return RepetitionTotals(self.samples, tuple(wall * factor for wall in self.wall_s), self.session)

    @property
    def total_samples(self) -> float:
        return math.fsum(self.samples)

    @property
    def total_wall_s(self) -> float:
        return math.fsum(self.wall_s)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the interval that covers the truth in `level` of all experiments, in the unit of the value.

    `low` and `high` are None together where the data cannot give an interval: a single window (`NONE`), or so few and
    different repetitions that it would say nothing (`UNKNOWN`, for `reason`; `wide` is what it would be). `repetitions`
    is the smallest number of repetitions behind any side of the estimate, `sessions` the number of sessions that both
    sides have in common.
    """

    value: float
    low: float | None
    high: float | None
    level: float
    method: Method
    repetitions: int
    sessions: int = 1
    reason: str = ""
    wide: tuple[float, float] | None = None

    @classmethod
    def not_known(
        cls,
        value: float,
        level: float,
        repetitions: int,
        sessions: int = 1,
        reason: str = "",
        wide: tuple[float, float] | None = None,
    ) -> Estimate:
        """A value without an interval, for ``reason``; by default the repetitions are too few, or differ too much."""
        if not reason:
            units, noun = (sessions, "session") if sessions > 1 else (repetitions, "repetition")
            reason = count(units, noun) + (" differ too much" if units > 2 else "")
        return cls(value, None, None, level, Method.UNKNOWN, repetitions, sessions, reason, wide)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval to decide by, also where it is too wide to be printed: one of 6 to 9 times is beyond 1."""
        return self.wide if self.low is None or self.high is None else (self.low, self.high)

    @property
    def unknown(self) -> bool:
        """True when the data cannot carry an interval; it is then shown as "not known"."""
        return self.method is Method.UNKNOWN

    @property
    def within_run_only(self) -> bool:
        """True when the interval says nothing of how another run would differ."""
        return self.method is Method.WITHIN_RUN

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def covers(self, truth: float) -> bool:
        """Whether `truth` lies in the interval; False without an interval."""
        return self.low is not None and self.high is not None and self.low <= truth <= self.high

    def scaled(self, factor: float) -> Estimate:
        """The estimate times a known positive factor (a price, N0/N); raises ValueError for another factor."""
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"an estimate scales by a finite positive factor, got {factor!r}")
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        wide = self.wide and (self.wide[0] * factor, self.wide[1] * factor)
        return replace(self, value=self.value * factor, low=low, high=high, wide=wide)

    def reciprocal(self) -> Estimate:
        """1 / estimate, for a positive one (throughput → seconds per sample); raises ValueError otherwise."""
        if self.value <= 0 or (self.low is not None and self.low < 0):
            raise ValueError(f"only a positive estimate has a reciprocal, got {self.value!r} from {self.low!r}")
        low, high = (None if end is None else 1 / end if end > 0 else math.inf for end in (self.high, self.low))
        wide = self.wide and (1 / self.wide[1], 1 / self.wide[0])
        return replace(self, value=1 / self.value, low=low, high=high, wide=wide)

    def complement(self) -> Estimate:
        """1 - estimate (the share of a step that is not compute)."""
        low, high = (None if end is None else 1 - end for end in (self.high, self.low))
        wide = self.wide and (1 - self.wide[1], 1 - self.wide[0])
        return replace(self, value=1 - self.value, low=low, high=high, wide=wide)


@dataclass(frozen=True, slots=True)
class RefusedNumber:
    """A number that is not given, and why; every surface shows it in the number's place."""

    reason: str


LEAST_SHARE = 0.02
"""Two ways of timing the same steps differ by so much of a step, whatever their intervals say."""


def below_zero(share: Estimate) -> bool:
    """Whether a share of a step is negative beyond its noise, and ``LEAST_SHARE`` at least."""
    return share.value < -max(LEAST_SHARE, share.half_width or 0.0)
