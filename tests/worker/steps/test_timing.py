from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.steps import timing
from scalecurve_worker.steps.timing import BareClock, HostClock, Span, UnixTime, even_out

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


@given(st.lists(st.integers(0, 10**9), max_size=20))
def test_evened_steps_take_as_long_together(durations: list[int]) -> None:
    starts = itertools.accumulate(durations, initial=7)
    evened_steps = even_out([Span(start, duration) for start, duration in zip(starts, durations, strict=False)])
    assert sum(span.duration_ns for span in evened_steps) == sum(durations)
    lengths = [span.duration_ns for span in evened_steps]
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert all(one.start_ns + one.duration_ns == two.start_ns for one, two in itertools.pairwise(evened_steps))


def test_a_bare_clock_is_marked_twice() -> None:
    clock = BareClock(HostClock(UnixTime()))
    clock.watch(2, 3)
    opened = clock.open()
    assert [clock.mark() for _ in range(5)] == [0] * 5
    steps = clock.finished()
    assert len(steps) == 5
    assert steps[0].start_ns == opened
    assert sum(step.duration_ns for step in steps) <= clock.close()
