"""2,000 hostile inputs from one seed; ``benchmarks/operator/hostile.py`` runs as many as there is time for."""

from __future__ import annotations

import asyncio

import pytest

from tests.operator.fuzz import run
from tests.operator.simulated_cluster import JUDGES

pytestmark = pytest.mark.processes  # that judge


def test_nothing_that_pods_leave_or_users_label_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: sleep(0))
    ends = run(0, 2000, JUDGES)
    assert sum(sum(counter.values()) for counter in ends.values()) == 2000
    assert {"RecordsUnreadable", "Succeeded"} <= set(ends["envelope"])
    assert {"RecordsUnreadable", "RecordsMissing", "Succeeded", "RankFailed"} <= set(ends["collection"])
    assert {"RankFailed", "OutOfMemory", "Evicted", "no cause"} <= set(ends["pods"])
    assert {"not ours", "ended", "running"} <= set(ends["job"])


def test_a_pod_whose_name_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by 100,000 inputs: it looked like a failure of the API server, which is tried again for ever."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: sleep(0))
    (end,) = run(25_492, 1, JUDGES)["collection"]
    assert end == "RecordsMissing"
