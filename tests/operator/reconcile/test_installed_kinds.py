"""A job kind that is not installed."""

from __future__ import annotations

import pytest

from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.reconcile import job_probe
from tests.operator.simulated_cluster import NAMESPACE, Process, World, settle


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)


def test_an_experiment_whose_runner_is_missing_keeps_nobody_waiting() -> None:
    world = World({}, runner="Job")
    world.spec("one", runner="MPIJob")
    process = Process(world)
    settle(world, process)
    assert world.condition("one", "Admitted")["reason"] == "RunnerMissing"
    assert Key(NAMESPACE, "one") in process.enqueued, "it looks again, for nobody tells that the runner has come"
    assert world.status("two")["phase"] == "Succeeded"
