"""Lines in which a program reports its steps -> steps, warm-up and windows. Pure.

A line gives the mean over the steps since the line before it. Times are the program's own where it states them, or
follow from its throughput and the planned batch; where it states neither, they are the time between two lines.
"""

import math
from dataclasses import dataclass
from statistics import median

from scalecurve_api.programs.log_format import ReportedLine
from scalecurve_api.record.journal import NO_LOSS, StepRow
from scalecurve_api.record.rank import Warmup
from scalecurve_api.spec.measure import Measure
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.steps.schedule import Schedule

BETWEEN_LINES = "the time between its lines"
_AGREES = 0.05
"""Of the planned batch: throughput times step time as rounded in a log"""


@dataclass(frozen=True)
class PlannedBatch:
    """What a step is planned to have over all workers; ``units`` are samples, or tokens where those are reported."""

    workers: int
    samples: int | None
    tokens_per_sample: int | None
    rates_in_tokens: bool

    @property
    def has_token_units(self) -> bool:
        return self.rates_in_tokens or self.tokens_per_sample is not None

    def units(self, samples: int | None = None) -> int | None:
        """Return the units of a step of so many samples, by default the planned ones; None where that is not known."""
        samples = samples or self.samples
        if samples is None or (self.has_token_units and self.tokens_per_sample is None):
            return None
        return samples * (self.tokens_per_sample or 1)

    def rate(self, line: ReportedLine) -> float | None:
        """Return units per second over all workers, as the line states it."""
        rate = line.rate if line.rate is not None else None
        if rate is None and line.worker_rate is not None:
            rate = line.worker_rate * self.workers
        if rate is not None and self.has_token_units and not self.rates_in_tokens:
            rate *= self.tokens_per_sample or 1
        return rate


@dataclass
class ReportedWindow:
    """So many consecutive steps of a program; the clock is the program's own."""

    index: int
    first_step: int
    start_ns: int
    steps: int = 0
    wall_ns: int = 0
    units: int = 0


@dataclass(frozen=True)
class _TimedLine:
    printed_s: float
    between_s: float
    """From the line before, by when both came."""


class ReportedSteps:
    """The steps that one process has reported, as far as they are needed."""

    def __init__(self, measure: Measure, batch: PlannedBatch, steps_per_line: int) -> None:
        self.windows: list[ReportedWindow] = []
        self.lines = 0
        self.steps = 0
        self.last_loss: float | None = None
        self.finite_loss: bool | None = None
        self.how = ""  # where the times are from
        self._measure, self._batch, self._steps_per_line = measure, batch, steps_per_line
        self._schedule = Schedule(measure)
        self._block = self._schedule.next_block()
        self._in_block: list[float] = []
        self._before: tuple[int, int] | None = None  # the line before: steps so far, and when
        self._clock_ns = 0  # end of the last step
        self._lines: list[_TimedLine] = []  # of windows, with a time of the program's own
        self._rows: list[StepRow] = []

    @property
    def complete(self) -> bool:
        """Whether every window is measured."""
        return self._block is None

    @property
    def warmup(self) -> Warmup | None:
        return self._schedule.warmup

    @property
    def printed_rate(self) -> float | None:
        """The printed rate over what the lines' own steps and times allow; None where that cannot be known.

        By the sum of all lines and by the median of them, whichever is closer to one: a pause spoils the sum, and a
        reader that was held up the median.
        """
        at_once = sum(line.between_s <= 0 for line in self._lines)
        if 2 * at_once >= len(self._lines):
            return None  # the program's output is buffered, or no time was printed
        whole = sum(line.between_s for line in self._lines) / sum(line.printed_s for line in self._lines)
        middle = median(line.between_s / line.printed_s for line in self._lines)
        return max(min(whole, middle), min(max(whole, middle), 1.0))

    def take(self, line: ReportedLine, at_ns: int) -> None:
        """Take a line that was printed at ``at_ns``, Unix time.

        Raises:
            WorkloadError: lines so far apart that a window would be a part of one.
        """
        if line.loss is not None:
            finite = math.isfinite(line.loss)
            self.last_loss = line.loss if finite else self.last_loss
            self.finite_loss = self.finite_loss is not False and finite
        at_ns = line.at_ns or at_ns
        done = self._steps_so_far(line)
        if done is None:
            return
        self.lines += 1
        before, count = self._before, done - self._before[0] if self._before else 0
        if before is None or line.begins or done < before[0] // 2:
            # The first line, or one after a pause, says when steps begin; a program may count anew in every epoch.
            self._before = (done, at_ns)
            return
        if count <= 0:
            return  # said twice, or by a rank that lags behind
        self._before = (done, at_ns)
        between_s = (at_ns - before[1]) / 1e9
        seconds, units = self._derive_step(line, count, between_s)
        if seconds > 0:
            if self._block is not None and self._block.measured and self.how != BETWEEN_LINES:
                self._lines.append(_TimedLine(count * seconds, between_s))
            self._extend(count, seconds, units, at_ns, line.loss)

    def rows(self) -> list[StepRow]:
        """Return the steps since the last call; their samples are of all workers."""
        rows, self._rows = self._rows, []
        return rows

    def _steps_so_far(self, line: ReportedLine) -> int | None:
        if line.step is not None:
            return line.step
        if line.samples is not None:
            return line.samples // self._batch.samples if self._batch.samples else None
        if line.seconds is None and line.rate is None and line.worker_rate is None:
            return None
        return (self._before[0] if self._before else 0) + self._steps_per_line

    def _derive_step(self, line: ReportedLine, count: int, between_s: float) -> tuple[float, int]:
        """Seconds and units of one step of a line."""
        rate, planned = self._batch.rate(line), self._batch.units(line.batch)
        if line.seconds is not None:
            self.how, seconds = "the step times in its lines", line.seconds
        elif rate is not None and planned is not None:
            self.how, seconds = "the throughput in its lines and the planned batch", planned / rate
        else:
            self.how, seconds = BETWEEN_LINES, between_s / count
        if rate is None:
            return seconds, planned or 0
        if planned is None or abs(rate * seconds / planned - 1) > _AGREES:
            return seconds, round(rate * seconds)
        return seconds, planned

    def _extend(self, count: int, seconds: float, units: int, at_ns: int, loss: float | None) -> None:
        duration_ns = max(1, round(seconds * 1e9))
        self._clock_ns = max(self._clock_ns, at_ns - count * duration_ns)
        for _ in range(count):
            block = self._block
            if block is None:
                return
            if block.measured and count > self._measure.steps_per_window:
                raise WorkloadError(
                    f"workload.log: the lines are {count} steps apart, and a window has "
                    f"{self._measure.steps_per_window}: set measure.stepsPerWindow to at least {count}, or let the "
                    "program report more often"
                )
            if block.measured and not self._in_block:
                self.windows.append(ReportedWindow(block.window, self.steps, self._clock_ns))
            if block.measured:
                window = self.windows[-1]
                window.steps, window.wall_ns = window.steps + 1, window.wall_ns + duration_ns
                window.units += units
            value = NO_LOSS if loss is None else loss
            self._rows.append(StepRow(self.steps, block.window, self._clock_ns, duration_ns, units, value))
            self._clock_ns += duration_ns
            self.steps += 1
            self._in_block.append(seconds)
            if len(self._in_block) == block.steps:
                self._block = self._schedule.next_block(self._in_block if block.judges_warmup else ())
                self._in_block = []
