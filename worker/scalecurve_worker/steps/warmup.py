"""When warm-up is over: pure, so that every rank comes to the same answer from the same times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scalecurve_api.spec.measure import Measure

TOLERANCE = 0.05
NOISE_LIMIT = 0.20
_LEAST_BLOCK = 5
# Of a median of n values of a normal distribution, over the mean's; and the deviation over the median absolute one.
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
_DEVIATION_OF_MAD = 1.4826


def block_steps(measure: Measure) -> int:
    """Steps of one block of warm-up: half of what is asked for at least, and never fewer than 5."""
    return max(_LEAST_BLOCK, math.ceil(measure.warmup_steps / 2))


def rule(measure: Measure) -> str:
    """The rule in words, as it is recorded."""
    if measure.max_warmup_steps == 0 or measure.warmup_steps >= measure.max_warmup_steps:
        return f"{min(measure.warmup_steps, measure.max_warmup_steps)} steps, as asked"
    block = block_steps(measure)
    return (
        f"at least {measure.warmup_steps} steps, then until the slowest rank's median step of the last {block} steps "
        f"is within {TOLERANCE:.0%}, or two standard errors (at most {NOISE_LIMIT:.0%}), of the {block} before; "
        f"at most {measure.max_warmup_steps}"
    )


def is_stable(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether step times have settled between two blocks.

    Medians within ``TOLERANCE`` of one another, or closer than twice the standard error of their difference: on a
    noisy machine a smaller difference cannot be told from none. A difference past ``NOISE_LIMIT`` is never taken for
    noise.
    """
    first, second = statistics.median(before), statistics.median(after)
    scale = max(first, second)
    error = math.hypot(_median_error(before), _median_error(after))
    return abs(second - first) <= max(TOLERANCE * scale, min(2 * error, NOISE_LIMIT * scale))


def slowest(times: Sequence[Sequence[float]]) -> list[float]:
    """The slowest rank's time at each step, from the times of every rank."""
    return [max(each) for each in zip(*times, strict=False)]


def _median_error(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return _MEDIAN_ERROR * _DEVIATION_OF_MAD * spread / math.sqrt(len(values))
