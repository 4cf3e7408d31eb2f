"""Statuses of experiments that are blocked, deleted or replaced."""

from __future__ import annotations

import pytest

from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.reconcile import job_probe, status_writer
from tests.operator.simulated_cluster import AT, NAMESPACE, PLURALS, Process, World, settle


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)


def test_a_record_that_may_not_be_kept_is_told_and_kept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota on ConfigMaps, say: the trial has ended, and waits for it."""
    monkeypatch.setattr(status_writer, "PUBLISH_INTERVAL_S", 0.0)
    world = World({}, ["one"])
    no = 'configmaps "x" is forbidden: exceeded quota: small, requested: count/configmaps=1'
    forbidden = (403, {"reason": "Forbidden", "message": no})
    world.store.refuse = lambda method, path: forbidden if "configmaps" in path else None
    process = Process(world)
    settle(world, process)
    said = world.condition("one", "Stalled")
    assert (said["status"], said["reason"]) == ("True", "Refused")
    assert said["message"] == f"one-weak-1-1x1-r1: the API server refused the request (403 Forbidden): {no}"
    assert len(world.store.of("jobs")) == 1, "nothing of it is given up"
    world.store.refuse = lambda method, path: None
    settle(world, process)
    world.check()


def test_an_experiment_whose_deletion_no_watch_has_told_is_let_go() -> None:
    world = World({})
    process = Process(world)
    settle(world, process, play=False)
    world.store.remove(AT["scalingexperiments"], "one")
    for _ in range(3):
        world.store.collect_garbage()
    for plural in PLURALS:
        process.list(plural)
    settle(world, process)
    assert list(process.cache.experiments) == [Key(NAMESPACE, "two")]
    assert world.status("two")["phase"] == "Succeeded"
    assert not world.store.of("jobs")
