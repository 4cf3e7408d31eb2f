"""A job kind that is not installed."""

from __future__ import annotations

import pytest

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.reconcile import job_probe
from scalecurve_operator.reconcile.installed_kinds import InstalledKinds
from tests.operator.simulated_cluster import AT, NAMESPACE, Process, World, settle


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


def test_an_experiment_keeps_the_runner_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its operator is replaced, and where the one before did not note a runner."""
    world = World({}, placement={"workersPerNode": 1})
    process = Process(world)
    settle(world, process, play=False)
    assert world.status("one")["runner"] == "Job"
    known = world.store.objects[AT["scalingexperiments"], "one"]
    forgotten = {name: value for name, value in known["status"].items() if not name.startswith("runner")}
    world.store.put(AT["scalingexperiments"], {**known, "status": forgotten})

    async def everything(self: InstalledKinds, runner: Runner) -> bool:
        return True

    monkeypatch.setattr(InstalledKinds, "_is_installed", everything)
    process = Process(world)
    settle(world, process)
    assert (world.status("one")["phase"], world.status("one")["runner"]) == ("Succeeded", "Job")
    assert world.status("two")["runner"] == "JobSet", "it had not begun"
