"""Clocks that are marked at the end of each step and read outside of it.

``HostClock`` is for CPUs, where the end of a step is the end of its work. On a GPU the host runs ahead of the
device, and ``scalecurve_worker.torch.clock`` marks the device's own stream.
"""

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Span(NamedTuple):
    """One step: Unix ns of its start, and its duration in ns."""

    start_ns: int
    duration_ns: int


class Clock(Protocol):
    """Marks the ends of steps in one window at a time."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""

    def open(self) -> int:
        """Begin a window on an idle device; its opening in Unix ns."""

    def mark(self) -> int:
        """Mark the end of a step and the beginning of the next. Returns a monotonic time in ns, of the host."""

    def finished(self) -> list[Span]:
        """Return the steps that have ended since the last call, as far as known without waiting."""

    def close(self) -> int:
        """Wait for the device; wall time of the window in ns. Every marked step is then finished."""


class BareClock:
    """Of steps of which only the first ``lead`` and the others are timed, each as a whole.

    A step has an even part of their time; nothing is marked at its end.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lead = self._steps = self._marks = 0

    def watch(self, lead: int, steps: int) -> None:
        """Prepare for a next window of so many steps."""
        self._lead, self._steps = lead, steps

    def synchronize(self) -> None:
        self._clock.synchronize()

    def open(self) -> int:
        self._marks = 0
        return self._clock.open()

    def mark(self) -> int:
        """Return 0 always: no time is asked for."""
        self._marks += 1
        if self._marks in (self._lead, self._lead + self._steps):
            self._clock.mark()
        return 0

    def finished(self) -> list[Span]:
        parts = zip(self._clock.finished(), (self._lead, self._steps), strict=False)
        return [part for span, steps in parts for part in even_out([Span(span.start_ns, 0)] * (steps - 1) + [span])]

    def close(self) -> int:
        return self._clock.close()


def even_out(spans: Sequence[Span]) -> list[Span]:
    """Return as many steps, of even parts of the time of all, one after another."""
    if not spans:
        return []
    total, start = sum(span.duration_ns for span in spans), spans[0].start_ns
    ends = [start + total * step // len(spans) for step in range(len(spans) + 1)]
    return [Span(begin, end - begin) for begin, end in itertools.pairwise(ends)]


class UnixTime:
    """Unix time carried forward by the monotonic clock: no step of it is bent by a clock adjustment."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._uptime_ns = _uptime_ns()

    def kernel_ns(self) -> int | None:
        """Time since this object was made by the kernel's file, which no library or module stands before."""
        now = _uptime_ns()
        return None if now is None or self._uptime_ns is None else now - self._uptime_ns

    def now(self) -> int:
        return time.monotonic_ns() + self._offset_ns

    def of(self, monotonic_ns: int) -> int:
        return monotonic_ns + self._offset_ns


def _uptime_ns() -> int | None:
    """In steps of 10 ms; None where there is no such file."""
    try:
        return round(float(Path("/proc/uptime").read_text().split()[0]) * 1e9)
    except (OSError, ValueError, IndexError):
        return None


class HostClock:
    """Monotonic ns of the host."""

    def __init__(self, unix: UnixTime) -> None:
        self._unix = unix
        self._marks: list[int] = []
        self._opened = 0

    def synchronize(self) -> None:
        """Do nothing: the host is its own device."""

    def open(self) -> int:
        self._opened = time.monotonic_ns()
        self._marks = [self._opened]
        return self._unix.of(self._opened)

    def mark(self) -> int:
        now = time.monotonic_ns()
        self._marks.append(now)
        return now

    def finished(self) -> list[Span]:
        marks = self._marks
        spans = [Span(self._unix.of(start), end - start) for start, end in itertools.pairwise(marks)]
        del marks[:-1]
        return spans

    def close(self) -> int:
        return time.monotonic_ns() - self._opened
