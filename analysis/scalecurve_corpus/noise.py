"""How far runs of one machine differ, and machines of one kind.

Three intervals, from the narrowest:

- *these runs*: Student's t on the runs that were made (``statistics.intervals``). Three runs in a row may agree by
  chance, or because one condition of the machine lasts longer than they do.
- *this machine, in this session*: what further runs on it average while nothing but runs passes (``this_session``): the
  same with an additive part that no three runs show, ``FLOOR``. Another day is not in it.
- *another machine of this kind*: what somebody else's machine with the same devices reaches (``another_machine``), by
  the spread between the machines of a kind, pooled with that of all other kinds (``statistics.prior``).

Between the last two is *another session of this machine*: ``statistics.prior.SESSIONS``.

docs/explanation/statistics.md says how each was calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.statistics.prior import Prior, most_likely
from scalecurve.statistics.spread import Spread, student_quantile, sum_of_squares

FLOOR = 0.0008
"""Standard deviation of a run, relative, that is added to what its repetitions show. Of the floors from 0.05 to 0.15 %
the least that holds 95 % in each of MLPerf Training 4.0, 4.1 and 5.0, over points whose runs were made in one go."""


@dataclass(frozen=True)
class LogInterval:
    """An interval on the scale of logarithms around the mean of the log of a rate."""

    center: float
    half: float
    level: float

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends as rates."""
        return math.exp(self.center - self.half), math.exp(self.center + self.half)

    def holds(self, log_rate: float) -> bool:
        """Return whether the logarithm of a rate lies in it."""
        return abs(log_rate - self.center) <= self.half


def this_session(rates: Sequence[float], further: float = math.inf, level: float = 0.95) -> LogInterval | None:
    """Find the interval for the mean of further runs on the machine that made these, in the same session.

    Args:
        rates: The rate of each run, in any unit.
        further: How many further runs are averaged; the session's long-run mean by default.
        level: Share of all experiments in which the interval holds that mean.

    Returns:
        The interval, or None of fewer than two runs: nothing is known between runs then.

    Raises:
        ValueError: a rate is not positive, or the level is outside (0, 1).
    """
    logs = _logs(rates, level)
    if len(logs) < 2:
        return None
    degrees = len(logs) - 1
    spread = Spread(sum_of_squares(logs) / degrees + FLOOR**2, degrees)
    return LogInterval(math.fsum(logs) / len(logs), _half(spread, 1 / len(logs) + 1 / further, level), level)


def machine_prior(kinds: Sequence[Sequence[float]]) -> Prior:
    """Fit what is known of the spread between machines of one kind, by maximum likelihood over all kinds.

    Args:
        kinds: The rate of each machine, one list a kind; a kind of one machine says nothing.

    Returns:
        The prior. Where kinds spread alike, it is worth more degrees of freedom.

    Raises:
        ValueError: fewer than three kinds have two machines that differ.
    """
    seen = [(sum_of_squares(_logs(rates, 0.95)), len(rates) - 1) for rates in kinds if len(rates) > 1]
    seen = [(squares, degrees) for squares, degrees in seen if squares > 0]
    if len(seen) < 3:
        raise ValueError(f"a spread between machines needs 3 kinds of 2 machines that differ, got {len(seen)}")
    return most_likely(seen)


def another_machine(rates: Sequence[float], prior: Prior, level: float = 0.95) -> LogInterval | None:
    """Find the interval for one further machine of a kind, from those of it that were seen.

    Args:
        rates: One rate a machine, in any unit.
        prior: The spread between machines of any one kind, from ``machine_prior``.
        level: Share of all further machines that it holds.

    Returns:
        The interval, or None without a machine.

    Raises:
        ValueError: a rate is not positive, or the level is outside (0, 1).
    """
    logs = _logs(rates, level)
    if not logs:
        return None
    spread = prior.pooled(sum_of_squares(logs), len(logs) - 1)
    return LogInterval(math.fsum(logs) / len(logs), _half(spread, 1 + 1 / len(logs), level), level)


def _logs(rates: Sequence[float], level: float) -> list[float]:
    if not 0 < level < 1:
        raise ValueError(f"level: got {level!r}; expected a number between 0 and 1")
    if not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"rates: got {', '.join(map(str, rates))}; expected positive numbers")
    return [math.log(rate) for rate in rates]


def _half(spread: Spread, shares: float, level: float) -> float:
    return student_quantile(spread.degrees, level) * math.sqrt(spread.variance * shares)
