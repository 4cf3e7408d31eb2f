from __future__ import annotations

import itertools
import time

from scalecurve_worker.steps.timing import HostClock, UnixTime


def test_spans_follow_one_another_and_fill_the_window() -> None:
    clock = HostClock(UnixTime())
    opened = clock.open()
    for _ in range(3):
        time.sleep(0.002)
        clock.mark()
    first = clock.finished()
    time.sleep(0.002)
    clock.mark()
    wall = clock.close()
    spans = first + clock.finished()
    assert len(first) == 3
    assert len(spans) == 4
    assert spans[0].start_ns == opened
    assert all(a.start_ns + a.duration_ns == b.start_ns for a, b in itertools.pairwise(spans))
    assert all(span.duration_ns >= 2_000_000 for span in spans)
    assert 0 <= wall - sum(span.duration_ns for span in spans) < 5_000_000
    assert abs(opened - time.time_ns()) < 1_000_000_000
