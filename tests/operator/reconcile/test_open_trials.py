"""When open trials are looked at again."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from scalecurve_kube.resources import timestamp
from scalecurve_operator.reconcile import job_probe
from scalecurve_operator.settings import Settings
from tests.operator.simulated_cluster import AT, Process, World, settle

NOW = float(round(time.time()))
"""All tests are over in this moment."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it; the time is the test's own."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)
    monkeypatch.setattr(time, "time", lambda: NOW)


def begun(world: World, ago_s: float) -> dict[str, Any]:
    """The only job runs, and has for so long."""
    (job,) = world.store.of("jobs")
    if "ready" not in (job.get("status") or {}):
        world.play(job)
    (job,) = world.store.of("jobs")
    at = timestamp(NOW - ago_s)
    return world.store.put(AT["jobs"], {**job, "status": {**job["status"], "startTime": at}})


def test_the_next_look_is_not_behind_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({}, ["one"], deadlineSeconds=60)
    process = Process(world)
    settle(world, process, play=False)
    begun(world, 40)
    process.watch("jobs")
    waits: list[float] = []
    (rec,) = process.reconciler.open.values()
    monkeypatch.setattr(rec, "settings", Settings(starting_seconds=3600.0))
    monkeypatch.setattr(rec, "queue", lambda key, after: waits.append(after))
    asyncio.run(process.reconcile())
    assert 0 < min(waits) <= 20.1
