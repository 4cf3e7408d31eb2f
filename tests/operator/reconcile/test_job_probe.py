"""Jobs that take long: what they wait for, and their deadline."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from scalecurve_api.record.outcome import Outcome
from scalecurve_kube.resources import timestamp
from scalecurve_operator.reconcile import job_probe
from tests.operator.attempt_remains import pod, pod_name
from tests.operator.simulated_cluster import AT, NAMESPACE, Process, World, settle

NOW = float(round(time.time()))
"""All tests are over in this moment."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it; the time is the test's own."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)
    monkeypatch.setattr(time, "time", lambda: NOW)


def test_what_a_job_waits_for_is_written_once() -> None:
    """However long it is, and over how many lines."""
    world = World({}, ["one"])
    process = Process(world)
    settle(world, process, play=False)
    (job,) = world.store.of("jobs")
    waiting = pod(NAMESPACE, job["metadata"]["name"], 0, job["metadata"]["labels"], None)
    held = {"waiting": {"reason": "ImagePullBackOff", "message": "no such\n  image " * 100}}
    waiting["status"] = {"phase": "Pending", "containerStatuses": [{"name": "worker", "image": "i", "state": held}]}
    waiting["metadata"]["ownerReferences"] = [{"uid": job["metadata"]["uid"]}]
    world.store.put(AT["pods"], waiting)
    settle(world, process, play=False)
    assert "no such image" in world.store.of("scalingtrials")[0]["status"]["message"]
    asked = len(process.cluster.requests)
    settle(world, process, play=False)
    assert {each.partition(" ")[0] for each in process.cluster.requests[asked:]} == {"GET"}


@pytest.mark.parametrize("began", ["2099-01-01T00:00:00Z", None])
def test_time_in_a_queue_is_no_time_of_a_trial(began: str | None) -> None:
    """A Job's clock starts when it is resumed; until it says so, when it was made."""
    world = World({}, ["one"])
    process = Process(world)
    settle(world, process, play=False)
    (job,) = world.store.of("jobs")
    metadata = {**job["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}
    world.store.put(AT["jobs"], {**job, "metadata": metadata, "status": {"startTime": began} if began else {}})
    settle(world, process, play=False)
    (trial,) = world.store.of("scalingtrials")[:1]
    reasons = [past["reason"] for past in trial["status"].get("history", [])]
    assert reasons == ([] if began else ["DeadlineExceeded"])


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_job_that_is_admitted_again_does_not_run_since_its_first_start(status: str) -> None:
    """What ran for a second, waited for an hour and was released is not past its deadline in that moment."""
    world = World({}, ["one"])
    process = Process(world)
    settle(world, process, play=False)
    (job,) = world.store.of("jobs")
    old, now = "2020-01-01T00:00:00Z", timestamp(NOW)
    suspended = {"type": "Suspended", "status": status, "lastTransitionTime": now if status == "False" else old}
    metadata, since = {**job["metadata"], "creationTimestamp": old}, {"startTime": old, "conditions": [suspended]}
    world.store.put(AT["jobs"], {**job, "metadata": metadata, "status": since})
    settle(world, process, play=False)
    (trial,) = world.store.of("scalingtrials")[:1]
    assert trial["status"].get("history", []) == []


def begun(world: World, ago_s: float) -> dict[str, Any]:
    """The only job runs, and has for so long."""
    (job,) = world.store.of("jobs")
    if "ready" not in (job.get("status") or {}):
        world.play(job)
    (job,) = world.store.of("jobs")
    at = timestamp(NOW - ago_s)
    return world.store.put(AT["jobs"], {**job, "status": {**job["status"], "startTime": at}})


def test_a_trial_whose_time_is_up_is_ended_with_its_last_lines() -> None:
    world = World({}, ["one"], deadlineSeconds=60)
    process = Process(world)
    settle(world, process, play=False)
    job = begun(world, 30)["metadata"]["name"]
    world.store.logs[pod_name(job, 0)] = "step 41\nstep 42\n"
    settle(world, process, play=False)
    assert len(world.store.of("jobs")) == 1, "not yet"
    begun(world, 61)
    settle(world, process, play=False)
    (trial,) = [each for each in world.store.of("scalingtrials") if each["status"].get("history")]
    assert trial["status"]["history"][0]["reason"] == "DeadlineExceeded"
    assert "deletionTimestamp" in world.store.objects[AT["jobs"], job]["metadata"]
    (kept,) = [each for each in world.store.of("configmaps") if each["metadata"]["name"].startswith(job)]
    outcome = Outcome.model_validate_json(kept["data"]["outcome.json"])
    assert outcome.log_tail == {pod_name(job, 0): ["step 41", "step 42"]}


def test_a_job_that_ends_as_its_time_is_up_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_probe, "_SILENCE_S", 3600.0)
    world = World({}, ["one"], deadlineSeconds=60)
    process = Process(world)
    settle(world, process, play=False)
    running = begun(world, 61)
    process.watch("jobs")
    world.play(running)  # and no watch has shown it yet
    asyncio.run(process.reconcile())
    settle(world, process)
    world.check()
