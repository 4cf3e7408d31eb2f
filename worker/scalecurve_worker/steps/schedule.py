"""The schedule of warm-up and measured steps: pure, and the same on every rank."""

import math
import statistics
from collections.abc import Generator, Sequence
from typing import NamedTuple

from scalecurve_api.record.journal import WARMUP_WINDOW
from scalecurve_api.record.rank import Warmup, WindowKind
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


SETTLING_STEPS = 3
"""Thrown away after every change of kind: caches, allocator and bucket views find their shape again."""

_LEAST_TO_COMPARE = 5


class Block(NamedTuple):
    """Consecutive steps of one kind; ``window`` is -1 where they are thrown away."""

    kind: WindowKind
    steps: int
    window: int

    @property
    def measured(self) -> bool:
        return self.window != WARMUP_WINDOW

    @property
    def judges_warmup(self) -> bool:
        """Whether the schedule wants the step times of this block before it can go on."""
        return self.kind is WindowKind.warmup


class Schedule:
    """Warm-up until stable, then the windows; ``alternate`` windows follow each train window where there are any."""

    def __init__(self, measure: Measure, alternate: WindowKind | None = None) -> None:
        self.warmup: Warmup | None = None
        self._measure = measure
        self._alternate = alternate
        self._blocks = self._plan()
        self._begun = False

    def next_block(self, times: Sequence[float] = ()) -> Block | None:
        """The block to run now, or None at the end.

        ``times`` are the slowest rank's step times of the block that has just ended, where it ``judges_warmup``.
        """
        try:
            if self._begun:
                return self._blocks.send(times)
            self._begun = True
            return next(self._blocks)
        except StopIteration:
            return None

    def _plan(self) -> Generator[Block, Sequence[float], None]:
        yield from self._warm_up()
        steps, index = self._measure.steps_per_window, 0
        for round_ in range(self._measure.windows):
            if round_ and self._alternate:
                yield Block(WindowKind.train, SETTLING_STEPS, WARMUP_WINDOW)
            yield Block(WindowKind.train, steps, index)
            index += 1
            if self._alternate:
                settling = SETTLING_STEPS if round_ else self._first_settling()
                yield Block(self._alternate, settling, WARMUP_WINDOW)
                yield Block(self._alternate, steps, index)
                index += 1

    def _warm_up(self) -> Generator[Block, Sequence[float], None]:
        most = self._measure.max_warmup_steps
        least = min(self._measure.warmup_steps, most)
        done, stable, previous = 0, False, ()  # type: int, bool, Sequence[float]
        while done < most and not (stable and done >= least):
            steps = min(block_steps(self._measure), (least if done < least else most) - done)
            times = yield Block(WindowKind.warmup, steps, WARMUP_WINDOW)
            done += steps
            comparable = min(len(previous), len(times)) >= _LEAST_TO_COMPARE
            stable = comparable and is_stable(previous, times)
            previous = times
        self.warmup = Warmup(steps=done, rule=rule(self._measure), stable=stable)

    def _first_settling(self) -> int:
        # The other kind has never run: it needs a warm-up of its own, though the machine is warm.
        return max(SETTLING_STEPS, math.ceil(self._measure.warmup_steps / 2))
