from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from scalecurve_worker.steps import timing
from scalecurve_worker.steps.timing import HostClock, Span, UnixTime

UNIX_NS = 1_700_000_000_000_000_000


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 5_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def time_ns(self) -> int:
        return UNIX_NS + self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic_ns=made.monotonic_ns, time_ns=made.time_ns))
    return made


def test_spans_follow_one_another_and_fill_the_window(clock: Clock) -> None:
    host = HostClock(UnixTime())
    clock.now_ns += 700
    opened = host.open()
    assert opened == UNIX_NS + 5_700
    for duration in (2, 30, 400):
        clock.now_ns += duration
        host.mark()
    first = host.finished()
    clock.now_ns += 5
    assert host.mark() == clock.now_ns
    clock.now_ns += 60
    assert host.close() == 2 + 30 + 400 + 5 + 60
    spans = first + host.finished()
    assert len(first) == 3
    assert spans[0].start_ns == opened
    assert all(a.start_ns + a.duration_ns == b.start_ns for a, b in itertools.pairwise(spans))
    assert [span.duration_ns for span in spans] == [2, 30, 400, 5]


def test_an_adjusted_system_clock_bends_no_step(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostClock(UnixTime())
    opened = host.open()
    monkeypatch.setattr(timing.time, "time_ns", lambda: 0)
    clock.now_ns += 9
    host.mark()
    assert host.finished() == [Span(opened, 9)]


def test_real_time_runs_forward() -> None:
    host = HostClock(UnixTime())
    opened = host.open()
    host.mark()
    wall = host.close()
    (span,) = host.finished()
    assert span.start_ns == opened
    assert 0 <= span.duration_ns <= wall
