from __future__ import annotations

from types import SimpleNamespace

import pytest

from scalecurve_worker.sdk import pauses as module
from scalecurve_worker.sdk.batches import LoaderTime
from scalecurve_worker.sdk.pauses import Pauses
from scalecurve_worker.steps.timing import HostClock, Span, UnixTime


def test_a_pause_is_taken_out_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100, 130, 500, 507])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic_ns=lambda: next(now)))
    loading = LoaderTime()
    loading.ns = 5
    pauses = Pauses(HostClock(UnixTime()), loading)
    pauses.end(3)  # none has begun
    pauses.begin()
    loading.ns = 9
    pauses.begin()  # two reasons for one pause
    pauses.end(4)
    assert loading.ns == 5
    pauses.begin()
    pauses.end(4)
    assert pauses.window_ns == pauses.total_ns == 37
    spans = [Span(0, 50), Span(50, 60), Span(110, 70)]
    assert pauses.take_out(spans, 3) == [Span(0, 50), Span(50, 23), Span(110, 70)]
    assert pauses.take_out(spans, 3) == spans
