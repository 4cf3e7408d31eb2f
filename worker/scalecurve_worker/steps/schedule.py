"""The schedule of warm-up and measured steps: pure, and the same on every rank."""

import math
import random
import statistics
from collections.abc import Callable, Generator, Sequence
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
    """Return the steps of one block of warm-up: at least half of ``warmup_steps``, and never fewer than 5."""
    return max(_LEAST_BLOCK, math.ceil(measure.warmup_steps / 2))


def rule(measure: Measure) -> str:
    """Return the rule in words, as it is recorded."""
    if measure.max_warmup_steps == 0 or measure.warmup_steps >= measure.max_warmup_steps:
        return f"exactly {min(measure.warmup_steps, measure.max_warmup_steps)} steps"
    block = block_steps(measure)
    return (
        f"at least {measure.warmup_steps} steps, then until the slowest rank's median step of the last {block} steps "
        f"is within {TOLERANCE:.0%}, or two standard errors (at most {NOISE_LIMIT:.0%}), of the {block} before; "
        f"at most {measure.max_warmup_steps}"
    )


def is_stable(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether step times have settled between two blocks.

    Medians within ``TOLERANCE`` of one another, or closer than twice the standard error of their difference: on a
    noisy machine a smaller difference cannot be told from none. A difference past ``NOISE_LIMIT`` is never taken for
    noise.
    """
    first, second = statistics.median(before), statistics.median(after)
    scale = max(first, second)
    error = math.hypot(_median_error(before), _median_error(after))
    return abs(second - first) <= max(TOLERANCE * scale, min(2 * error, NOISE_LIMIT * scale))


def slowest(times: Sequence[Sequence[float]]) -> list[float]:
    """Return the slowest rank's time at each step, from the times of every rank."""
    return [max(each) for each in zip(*times, strict=False)]


def _median_error(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return _MEDIAN_ERROR * _DEVIATION_OF_MAD * spread / math.sqrt(len(values))


# Thrown away after every change of kind: caches, allocator and bucket views find their shape again.
SETTLING_STEPS = 3
TRACED_STEPS = 3
# Between two sessions of torch's profiler. One may end in a hook of optimizer.step, inside the range that torch records
# there; if the next began in that same hook, the range would end in it and write to memory of the one before, which is
# freed: a segmentation fault in one run of two (torch 2.14, two ranks on two busy cores).
UNPROFILED_STEPS = 1
COUNTED_STEPS = 3
"""Steps whose FLOPs are counted: a step by itself tells nothing of how much they vary"""
SECTIONED_STEPS, SECTIONED_S = 20, 1.5
"""Most steps whose sections are timed, and the seconds that they may take."""
_LEAST_TO_COMPARE = 5
OBSERVED_STEPS = (1, 3, 8, 16)
ENOUGH_STEPS, ENOUGH_S = 4, 1.0
"""Of one block of observed steps and those that follow it: fewer where so many would take longer."""


# Steps between a window's barrier and its opening, in no window: the device is idle then, and waits for the host. On an
# H200 the first step after the barrier took 2 to 4 ms more than the others, whatever a step took; a loop that is not
# stopped never pays that (docs/evidence/h200).
LEAD_STEPS = 1
MOST_BARE = 0.15
"""Of the timed steps: at most so many more are bare, the untimed ones before them included."""
_LEAST_TURN, _TURN = 2, 9


def turns(measure: Measure, alternates: bool) -> tuple[int, int]:
    """Return how often bare and instrumented steps take four turns, and the timed steps of each; (0, 0) for never."""
    timed = measure.windows * measure.steps_per_window * (2 if alternates else 1)
    most = int(MOST_BARE * timed)
    blocks = max(1, most // (2 * (LEAD_STEPS + _TURN)))
    steps = most // (2 * blocks) - LEAD_STEPS
    return (blocks, steps) if steps >= _LEAST_TURN else (0, 0)


def enough_steps(steps: int, seconds: float) -> bool:
    """Return whether these observed steps, taking so long in all, are as many as needed, or as there is time for."""
    return steps >= ENOUGH_STEPS or seconds / steps * ENOUGH_STEPS > ENOUGH_S


def count_sectioned_steps(step_s: float) -> int:
    """Return how many steps to time section by section, where one takes so long: at least one."""
    return max(1, min(SECTIONED_STEPS, int(SECTIONED_S / step_s) if step_s > 0 else SECTIONED_STEPS))


def count_traced_steps(measure: Measure) -> int:
    """Return how many steps to trace, where any are."""
    return measure.trace.steps if measure.trace else TRACED_STEPS


def steps_needed(measure: Measure, several: bool) -> int:
    """Return the steps a user's program needs to measure everything, if its warm-up ends as soon as it may.

    Besides the windows these are observed, counted and traced steps, and the untimed step before each window. Those
    whose sections are timed come last, and are not counted here: they are omitted where the program ends before.
    """
    window = LEAD_STEPS + measure.steps_per_window
    steps = 1 + COUNTED_STEPS + min(measure.warmup_steps, measure.max_warmup_steps) + measure.windows * window
    blocks, turn = turns(measure, several and measure.exposed_communication)
    steps += SETTLING_STEPS + 4 * blocks * (LEAD_STEPS + turn) if blocks else 0
    if several or measure.trace:
        steps += SETTLING_STEPS + count_traced_steps(measure)
    if not several:
        return steps
    steps += 2 * (ENOUGH_STEPS + UNPROFILED_STEPS) + UNPROFILED_STEPS
    if not measure.exposed_communication:
        return steps
    return steps + math.ceil(measure.warmup_steps / 2) + measure.windows * (window + 2 * SETTLING_STEPS)


class Block(NamedTuple):
    """Consecutive steps of one kind; ``window`` is -1 where they are thrown away.

    ``anew`` is of the first of several observed blocks that belong together.
    """

    kind: WindowKind
    steps: int
    window: int
    observed: bool = False
    anew: bool = False
    counted: bool = False
    traced: bool = False
    sectioned: bool = False

    @property
    def measured(self) -> bool:
        return self.window != WARMUP_WINDOW

    @property
    def in_turn(self) -> bool:
        """Whether it is one of the bare and instrumented blocks that are compared with each other."""
        return self.kind in (WindowKind.bare, WindowKind.instrumented)

    @property
    def judges_warmup(self) -> bool:
        """Whether the schedule needs the step times of this block before it goes on."""
        return self.kind is WindowKind.warmup


class Schedule:
    """Warm-up until stable, then the windows; ``alternate`` windows follow each train window where there are any.

    Before the warm-up and after the last window come blocks of observed steps, ever longer, until ``observed``, which
    gets their number, says that enough was seen. ``counted`` says whether steps before the warm-up are to be counted,
    ``traced`` whether steps after the last window are to be traced, ``sectioned`` how many of them are to be timed
    section by section. ``alternate`` may be set until the first window has closed. With a ``seed`` blocks of bare steps
    and of instrumented ones follow the last window, as ABBA or BAAB (what drifts in a line cancels out), drawn by it.
    """

    def __init__(
        self,
        measure: Measure,
        alternate: WindowKind | None = None,
        observed: Callable[[int], bool] | None = None,
        counted: Callable[[], bool] = lambda: False,
        traced: Callable[[], bool] = lambda: False,
        sectioned: Callable[[], int] = lambda: 0,
        seed: int | None = None,
    ) -> None:
        self.warmup: Warmup | None = None
        self.alternate = alternate
        self._measure = measure
        self._observed = observed
        self._counted = counted
        self._traced = traced
        self._sectioned = sectioned
        self._seed = seed
        self._blocks = self._plan()

    def next_block(self, times: Sequence[float] = ()) -> Block | None:
        """Return the block to run now, or None at the end.

        ``times`` are the slowest rank's step times of the block that has just ended, where it ``judges_warmup``.
        """
        try:
            return self._blocks.send(times or None)
        except StopIteration:
            return None

    def _plan(self) -> Generator[Block, Sequence[float] | None]:
        yield from self._observe()
        if self._counted():
            # What is compiled is compiled in the first step.
            yield Block(WindowKind.train, 1, WARMUP_WINDOW)
            for _ in range(COUNTED_STEPS):
                yield Block(WindowKind.train, 1, WARMUP_WINDOW, counted=True)
        yield from self._warm_up()
        steps, index = self._measure.steps_per_window, 0
        for round_ in range(self._measure.windows):
            if round_ and self.alternate:
                yield Block(WindowKind.train, SETTLING_STEPS, WARMUP_WINDOW)
            yield Block(WindowKind.train, steps, index)
            index += 1
            if self.alternate:
                # The first time it needs a warm-up of its own, though the machine is warm.
                first = math.ceil(self._measure.warmup_steps / 2) if round_ == 0 else 0
                yield Block(self.alternate, max(SETTLING_STEPS, first), WARMUP_WINDOW)
                yield Block(self.alternate, steps, index)
                index += 1
        yield from self._take_turns(index)
        if self._traced():
            yield Block(WindowKind.train, SETTLING_STEPS, WARMUP_WINDOW)
            yield Block(WindowKind.train, count_traced_steps(self._measure), WARMUP_WINDOW, traced=True)
            if self._observed:
                yield Block(WindowKind.train, UNPROFILED_STEPS, WARMUP_WINDOW)
        yield from self._observe()
        # Last, as a program may end before them, and nothing else is then missing.
        if steps := self._sectioned():
            # What watches a step is there from the first block on: a compiled program may be compiled anew.
            yield Block(WindowKind.train, min(steps, SETTLING_STEPS), WARMUP_WINDOW, sectioned=True)
            yield Block(WindowKind.train, steps, WARMUP_WINDOW, sectioned=True)

    def _take_turns(self, index: int) -> Generator[Block, Sequence[float] | None]:
        blocks, steps = turns(self._measure, self.alternate is not None) if self._seed is not None else (0, 0)
        if blocks and self.alternate:
            yield Block(WindowKind.train, SETTLING_STEPS, WARMUP_WINDOW)
        drawn = random.Random(self._seed)
        for _ in range(blocks):
            first, second = drawn.sample((WindowKind.bare, WindowKind.instrumented), 2)
            for kind in (first, second, second, first):
                yield Block(kind, steps, index)
                index += 1

    def _observe(self) -> Generator[Block, Sequence[float] | None]:
        done = 0
        for steps in OBSERVED_STEPS if self._observed else ():
            if done:
                yield Block(WindowKind.train, UNPROFILED_STEPS, WARMUP_WINDOW)
            yield Block(WindowKind.train, steps, WARMUP_WINDOW, observed=True, anew=not done)
            done += steps
            if self._observed and self._observed(done):
                return

    def _warm_up(self) -> Generator[Block, Sequence[float] | None]:
        most = self._measure.max_warmup_steps
        least = min(self._measure.warmup_steps, most)
        done, stable, previous = 0, False, ()  # type: int, bool, Sequence[float]
        while done < most and not (stable and done >= least):
            steps = min(block_steps(self._measure), (least if done < least else most) - done)
            times = (yield Block(WindowKind.warmup, steps, WARMUP_WINDOW)) or ()
            done += steps
            comparable = min(len(previous), len(times)) >= _LEAST_TO_COMPARE
            stable = comparable and is_stable(previous, times)
            previous = times
        self.warmup = Warmup(steps=done, rule=rule(self._measure), stable=stable)
