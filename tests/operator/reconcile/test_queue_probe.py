"""Jobs in a queue of Kueue: why they wait, what is never admitted, and how long they may."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scalecurve_api.spec.trial import FailedReason
from scalecurve_kube.resources import timestamp
from scalecurve_operator.reconcile import job_probe, open_trials
from tests.operator.simulated_cluster import AT, NAMESPACE, Process, World, settle

WORKLOADS = f"apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
# As Kueue 0.19.2 says it.
FULL = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor default"
NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor default, previously "
    "considered podsets requests (0) + current podset request (2) > maximum capacity (1)"
)
NOWHERE = "LocalQueue nowhere doesn't exist"
NOW = float(round(time.time()))
"""All tests are over in this moment."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at every queued job in every turn; the time is the test's own."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(open_trials, "_FIRST_IN_QUEUE_S", 0.0)
    monkeypatch.setattr(job_probe, "_SILENCE_S", 1e9)


def workload(reason: str, message: str, **spec: Any) -> dict[str, Any]:
    reserved = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {"kind": "Workload", "spec": spec, "status": {"conditions": [reserved]}}


@pytest.mark.parametrize(
    ("reason", "message", "never"),
    [("Pending", FULL, False), ("Pending", NEVER, True), ("Inadmissible", NOWHERE, True),
     ("Inadmissible", "ClusterQueue team is inactive", False)],
)  # fmt: skip
def test_what_kueue_says_of_a_workload(reason: str, message: str, never: bool) -> None:
    waiting, cause = job_probe.diagnosis(workload(reason, message), "")
    assert (waiting is None) is never
    assert (cause is not None) is never
    assert message in str(cause[1] if cause else waiting)
    assert cause is None or cause[0] is FailedReason.never_admissible


def test_a_deactivated_workload_is_never_admitted() -> None:
    tree = workload("Pending", FULL, active=False)
    tree["status"]["conditions"].append(
        {"type": "Evicted", "status": "True", "reason": "Deactivated", "message": "The workload is deactivated"}
    )
    assert job_probe.diagnosis(tree, "") == (
        None,
        (FailedReason.never_admissible, "Kueue deactivated it: The workload is deactivated"),
    )


def test_a_preempted_workload_says_so_while_it_waits() -> None:
    tree = workload("Pending", FULL)
    tree["status"]["conditions"].append({"type": "Evicted", "status": "True", "reason": "Preempted", "message": "m"})
    waiting, _ = job_probe.diagnosis(tree, "")
    assert waiting is not None
    assert waiting.endswith("evicted before, Preempted")


def test_admission_checks_that_are_open_are_named() -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}
    checks = [{"name": "prov", "state": "Pending", "message": "no capacity"}, {"name": "ok", "state": "Ready"}]
    tree = {"status": {"conditions": [reserved], "admissionChecks": checks}}
    assert job_probe.diagnosis(tree, "")[0] == "Kueue: quota is reserved; admission checks: prov no capacity"


def queued(reason: str = "", message: str = "", since: float = 0, **spec: Any) -> tuple[World, Process]:
    """A world whose only job waits in a queue for ``since`` seconds; Kueue says so of it, or nothing."""
    world = World({}, ["one"], queue="team", **spec)
    process = Process(world)
    settle(world, process, play=False)
    (job,) = world.store.of("jobs")
    at = timestamp(NOW - since)
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": at}
    metadata = {**job["metadata"], "creationTimestamp": at}
    world.store.put(AT["jobs"], {**job, "metadata": metadata, "status": {"conditions": [suspended]}})
    if message:
        labels = {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]}
        world.store.put(
            WORKLOADS,
            {"metadata": {"name": "w", "namespace": NAMESPACE, "labels": labels}, **workload(reason, message)},
        )
    settle(world, process, play=False)
    return world, process


def test_why_a_trial_waits_is_in_its_status_and_in_an_event() -> None:
    world, process = queued("Pending", FULL)
    (trial,) = world.store.of("scalingtrials")
    assert trial["status"]["phase"] == "Queued"
    assert FULL in trial["status"]["message"]
    (event,) = [each for each in world.store.of("events") if each["reason"] == "TrialQueued"]
    assert FULL in event["message"]
    settle(world, process, play=False)
    assert len([each for each in world.store.of("events") if each["reason"] == "TrialQueued"]) == 1


def test_what_can_never_be_admitted_fails_at_once() -> None:
    world, _ = queued("Pending", NEVER)
    (past,) = world.store.of("scalingtrials")[0]["status"]["history"]
    assert (past["phase"], past["reason"]) == ("Failed", "NeverAdmissible")
    (job,) = world.store.of("jobs")
    assert "deletionTimestamp" in job["metadata"]


@pytest.mark.parametrize("since", [30, 90])
def test_a_queue_deadline_ends_the_wait(since: int) -> None:
    world, _ = queued("Pending", FULL, since, queueDeadlineSeconds=60)
    history = world.store.of("scalingtrials")[0]["status"].get("history", [])
    assert [past["reason"] for past in history] == (["QueueDeadlineExceeded"] if since > 60 else [])


def test_without_kueue_the_trial_says_that_there_is_no_workload() -> None:
    world, _ = queued(since=10_000)
    (trial,) = world.store.of("scalingtrials")
    assert "no Workload of Kueue for this Job" in trial["status"]["message"]
    assert "history" not in trial["status"]


def test_an_experiment_whose_jobs_all_wait_holds_no_place_in_its_pool() -> None:
    world = World({}, ["one", "two"], queue="team")
    process = Process(world)
    settle(world, process, play=False)
    jobs = world.store.of("jobs")
    assert {job["metadata"]["labels"]["scalecurve.dev/experiment"] for job in jobs} == {"one", "two"}
    (first,) = [each for each in world.store.of("scalingexperiments") if each["metadata"]["name"] == "one"]
    conditions = {entry["type"]: entry["reason"] for entry in first["status"]["conditions"]}
    assert conditions["Admitted"] == "InQueue"
