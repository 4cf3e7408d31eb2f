"""Accept a machine against published systems, with error rates that are stated before it is measured.

A machine is refused where its rate in this session is below a threshold beyond doubt: the upper end of the one-sided
95 % interval of *this machine, in this session* lies under it. How often that refuses a machine at the threshold (false
alarms), and one that is some percent below (power), is counted on the real repetitions of a corpus: some runs in a row
against the others of the same system, whose own error the interval includes. Repetitions are fixed beforehand: to
repeat until one passes is no test. Another question is how many of the published systems themselves would be refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles, stdev

from scalecurve_corpus.noise import this_session
from scalecurve_corpus.schema import Corpus, PublishedPoint

LEVEL = 0.95
BELOW = (0.005, 0.01, 0.02, 0.05)
"""By how much a machine may be slower, of which the chance to be refused is shown."""
_LEAST_RUNS = 5


@dataclass(frozen=True)
class ErrorRates:
    """Shares of machines that are refused, on ``draws`` of so many repetitions in a row."""

    repetitions: int
    draws: int
    false_alarms: float
    power: tuple[float, ...]

    @property
    def sentence(self) -> str:
        """What to know before the run."""
        below = ", ".join(f"{100 * d:g} % below in {100 * p:.0f} %" for d, p in zip(BELOW, self.power, strict=True))
        return (
            f"With {self.repetitions} repetitions a machine at the threshold is refused in "
            f"{100 * self.false_alarms:.1f} % (5 % promised), one {below} ({self.draws:,} draws of published "
            "repetitions against the others of their system)"
        )


@dataclass(frozen=True)
class RepetitionSpread:
    """Standard deviation of the logarithm of a run over the repetitions of a system: in ``points`` systems."""

    points: int
    median: float
    ninetieth: float


def repetition_spread(corpus: Corpus) -> RepetitionSpread | None:
    """Find how far the repetitions of published systems differ.

    Args:
        corpus: Points with five or more runs are counted.

    Returns:
        The median and the 90th percentile over systems; None of fewer than two.
    """
    spreads = [stdev(map(math.log, rates)) for point in corpus.points if len(rates := point.figures) >= _LEAST_RUNS]
    if len(spreads) < 2:
        return None
    tenths = quantiles(spreads, n=10, method="inclusive")
    return RepetitionSpread(len(spreads), tenths[4], tenths[8])


def refuses(rates: Sequence[float], threshold: float, level: float = LEVEL, further: float = math.inf) -> bool | None:
    """Decide whether a machine's rate in this session is below a threshold beyond doubt.

    Args:
        rates: The rate of each repetition.
        threshold: In the same unit.
        level: Of the one-sided interval.
        further: How many runs of the machine the threshold is the mean of, if it is one of its own.

    Returns:
        True where it is, None of fewer than two repetitions.

    Raises:
        ValueError: a rate or the threshold is not positive.
    """
    if not 0 < threshold < math.inf:
        raise ValueError(f"threshold: got {threshold!r}; expected a positive number")
    interval = this_session(rates, further, 2 * level - 1)
    return None if interval is None else interval.center + interval.half < math.log(threshold)


def error_rates(repetitions: int, corpus: Corpus) -> ErrorRates:
    """Count how often machines of a corpus would be refused.

    The truth of a machine is the mean of its other runs; it is measured by so many in a row.

    Args:
        repetitions: How many are made, two or more.
        corpus: Points with five or more runs, and two more than ``repetitions``, are counted.

    Returns:
        The share of false alarms, and the power at each difference of ``BELOW``; every machine counts alike.

    Raises:
        ValueError: fewer than two repetitions, or no point has so many runs.
    """
    if repetitions < 2:
        raise ValueError(f"repetitions: got {repetitions}; expected 2 or more: one says nothing of the next")
    machines = [draws for point in corpus.points if (draws := list(_draws(point, repetitions)))]
    if not machines:
        raise ValueError(f"repetitions: got {repetitions}; no point of the corpus has {repetitions + 2} runs")
    false_alarms, *power = (
        fmean(fmean(_is_refused(runs, others, below) for runs, others in draws) for draws in machines)
        for below in (0.0, *BELOW)
    )
    return ErrorRates(repetitions, sum(map(len, machines)), false_alarms, tuple(power))


def _draws(point: PublishedPoint, repetitions: int) -> Iterator[tuple[list[float], list[float]]]:
    """Runs in a row, and the others of the point."""
    rates = list(point.figures)
    if len(rates) < max(_LEAST_RUNS, repetitions + 2):
        return
    for begin in range(len(rates) - repetitions + 1):
        end = begin + repetitions
        yield rates[begin:end], rates[:begin] + rates[end:]


def _is_refused(runs: Sequence[float], others: Sequence[float], below: float) -> bool:
    """A machine ``below`` the threshold is one whose threshold lies above its truth."""
    truth = math.exp(fmean(map(math.log, others)))
    return refuses(runs, truth / (1 - below), further=len(others)) is True
