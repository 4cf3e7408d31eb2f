"""Names of trials and jobs that are taken."""

from __future__ import annotations

import pytest

from scalecurve_api.spec.object_names import labels
from scalecurve_operator.reconcile import job_probe
from tests.operator.simulated_cluster import AT, NAMESPACE, Process, World, settle


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)


@pytest.mark.parametrize("kind", ["ScalingTrial", "Job"])
def test_what_stands_in_the_way_of_a_trial_is_told(kind: str) -> None:
    """Left by an experiment that was deleted with --cascade=orphan, or made by hand."""
    world = World({}, ["one"])
    name = "one-weak-1-1x1-r1" + ("-a1" if kind == "Job" else "")
    tags = labels("one", "one-weak-1-1x1-r1", 1) if kind == "Job" else labels("one")
    plural = f"{kind.lower()}s"
    metadata = {"name": name, "namespace": NAMESPACE, "labels": tags}
    world.store.put(AT[plural], {"kind": kind, "metadata": metadata, "spec": {"completions": 1}})
    process = Process(world)
    settle(world, process, play=False)
    said = world.condition("one", "Stalled")
    assert (said["status"], said["reason"]) == ("True", "NameTaken")
    assert name in said["message"]
    world.store.remove(AT[plural], name)
    settle(world, process)
    assert world.status("one")["phase"] == "Succeeded"
    assert "Stalled" not in {each["type"] for each in world.status("one")["conditions"]}
