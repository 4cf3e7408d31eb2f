"""The time limit of a run, which passes only while the run has its devices."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from scalecurve_local.stop import StopRequest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Seconds that pass only where the test says so."""
    clock = SimpleNamespace(now=time.monotonic())
    monkeypatch.setattr("scalecurve_local.stop.time.monotonic", lambda: clock.now)
    return clock


def test_a_limit_ends_a_run(clock: SimpleNamespace) -> None:
    stop = StopRequest()
    with stop.within(40):
        clock.now += 39
        assert not stop.requested
        clock.now += 1
        assert stop.requested
    assert not stop.requested
    with stop.within(None):
        clock.now += 1e6
        assert not stop.requested


def test_waiting_for_devices_takes_nothing_of_the_limit(clock: SimpleNamespace) -> None:
    stop = StopRequest()
    with stop.within(40):
        clock.now += 10
        with stop.paused():
            clock.now += 1000
            assert not stop.requested
        clock.now += 29
        assert not stop.requested
        clock.now += 1
        assert stop.requested


def test_a_signal_ends_the_waiting(clock: SimpleNamespace) -> None:
    stop = StopRequest()
    with stop.within(40), stop.paused():
        stop()
        assert stop.requested
