"""The liveness probe."""

from __future__ import annotations

import pytest

from scalecurve_operator import health


@pytest.mark.parametrize(
    ("unconfirmed", "reconcile", "answer", "leading", "why"),
    [
        ({}, 0, 1000, True, None),
        ({"jobs": (7, 1000 - health.MAX_WATCH_LAG_S)}, 0, 1000, True, None),
        ({"jobs": (7, 999 - health.MAX_WATCH_LAG_S)}, 0, 1000, True, "the watch of jobs has not shown version 7"),
        ({}, health.MAX_RECONCILE_S + 1, 1000, True, "a reconcile has been running"),
        ({}, 0, 999 - health.MAX_SILENCE_S, True, "the API server has not answered"),
        ({}, 0, 999 - health.MAX_SILENCE_S, False, None),
    ],
)
def test_alive_means_progress(
    unconfirmed: dict[str, tuple[int, float]], reconcile: float, answer: float, leading: bool, why: str | None
) -> None:
    found = health.unhealthy(unconfirmed, reconcile, answer, leading, 1000.0)
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")
