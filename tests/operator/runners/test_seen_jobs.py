"""Reading: jobs as real controllers left them (``capture.py`` writes ``seen/``), and the pods that tell why."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.trial import FailedReason
from scalecurve_operator.cache.cached_objects import trim_job
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.recordings import KINDS, kind, names, seen

OWN_DEADLINES = ("pytorchjob", "tfjob", "jobset")


def test_every_runner_is_recorded() -> None:
    states = ("running", "succeeded", "exit", "oom", "deadline", "evicted", "queued", "quota", "unschedulable")
    missing = [f"{each}-{state}" for each in KINDS for state in states if f"{each}-{state}" not in names(state)]
    assert not missing, "record real jobs: python -m tests.operator.runners.capture KIND"


@pytest.mark.parametrize(
    ("scenario", "state"),
    [
        ("queued", Job.queued),
        ("unschedulable", Job.starting),
        ("quota", Job.starting),
        ("running", Job.running),
        ("succeeded", Job.ended),
        ("oom", Job.ended),
        ("exit", Job.ended),
        ("deadline", Job.ended),
        ("evicted", Job.ended),
    ],
)
def test_states(scenario: str, state: Job) -> None:
    for name in names(scenario):
        assert kind(name).read(seen(name)["job"]).state is state, name


def test_an_end_has_a_message() -> None:
    for scenario in ("succeeded", "oom", "exit", "deadline", "evicted"):
        for name in names(scenario):
            reading = kind(name).read(seen(name)["job"])
            assert reading.succeeded is (scenario == "succeeded"), name
            assert reading.message


def test_a_deadline_is_known_from_the_job() -> None:
    for name in names("deadline"):
        if name == "jobset-deadline":
            continue  # which has none; its pods do
        assert kind(name).read(seen(name)["job"]).reason is FailedReason.deadline_exceeded, name
    for name in (*names("oom"), *names("exit")):
        assert kind(name).read(seen(name)["job"]).reason is None, name


def test_a_job_without_status_starts() -> None:
    for runner in RUNNERS.values():
        assert runner.read({"metadata": {"name": "x"}}).state is Job.starting
        assert runner.read({"metadata": {"name": "x"}, "spec": {}, "status": {}}).state is Job.starting


@pytest.mark.parametrize("name", names("running"))
def test_a_job_of_which_one_pod_is_done_still_runs(name: str) -> None:
    job = seen(name)["job"]
    status = job["status"]
    if name == "job-running":
        status |= {"active": 1, "ready": 1, "succeeded": 1}
    elif name in ("jobset-running", "trainjob-running"):
        pass  # its controller counts Jobs whose pods are all ready or done
    else:
        status["replicaStatuses"]["Worker"] = {"active": 0, "succeeded": job_workers(job)}
    assert kind(name).read(job).state is Job.running


def job_workers(job: dict[str, Any]) -> int:
    specs = next(spec for field, spec in job["spec"].items() if field.endswith("ReplicaSpecs"))
    return int(specs["Worker"]["replicas"])


def test_the_record_is_where_rank_0_prints() -> None:
    for name, end in (
        ("mpijob-running", "-launcher"),
        ("pytorchjob-running", "-master-0"),
        ("tfjob-running", "-worker-0"),
        ("job-running", "-a1-0"),
        ("jobset-running", "-w-0-0"),
        ("trainjob-running", "-node-0-0"),
    ):
        pods = seen(name)["pods"]
        found = kind(name).recording_pod(pods[::-1])
        assert found is not None
        label = found["metadata"]["name"] if end.endswith("0") else found["metadata"]["name"].rpartition("-")[0]
        assert end in label
        assert kind(name).recording_pod([]) is None


class TestWhatPodsSay:
    """The same over every kind: the reason is in the pods alone."""

    @pytest.mark.parametrize("name", names("oom"))
    def test_out_of_memory(self, name: str) -> None:
        found = pod_diagnosis.failure(seen(name)["pods"])
        assert found is not None
        assert found[0] is FailedReason.out_of_memory
        assert "on node-" in found[1]

    @pytest.mark.parametrize("name", names("exit"))
    def test_exit_code_and_last_word(self, name: str) -> None:
        found = pod_diagnosis.failure(seen(name)["pods"])
        assert found is not None
        assert found[0] is FailedReason.rank_failed
        assert found[1].endswith("exited with code 3: boom")

    @pytest.mark.parametrize("name", names("evicted"))
    def test_evicted(self, name: str) -> None:
        found = pod_diagnosis.failure(seen(name)["pods"])
        assert found is not None
        assert found[0] is FailedReason.evicted
        assert found[1].endswith("Evicted: The node was low on resource: memory.")

    @pytest.mark.parametrize("name", names("unschedulable"))
    def test_unschedulable(self, name: str) -> None:
        found = seen(name)
        reason = pod_diagnosis.failure(found["pods"], found["events"])
        assert reason is not None
        assert reason[0] is FailedReason.unschedulable
        assert "and 1 more: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu." in reason[1]
        assert pod_diagnosis.waiting(found["pods"], found["events"]) == f"Unschedulable: {reason[1]}"
        assert pod_diagnosis.hopeless(found["pods"], found["events"]) is None

    @pytest.mark.parametrize("name", names("quota"))
    def test_quota(self, name: str) -> None:
        found = seen(name)
        reason = pod_diagnosis.failure(found["pods"], found["events"])
        assert reason is not None
        assert reason[0] is FailedReason.quota_exceeded
        assert reason[1].startswith("exceeded quota: small, requested: requests.nvidia.com/gpu=1, used:")
        assert pod_diagnosis.hopeless(found["pods"], found["events"]) is None, "others may leave room"

    @pytest.mark.parametrize("name", names("running") + names("succeeded"))
    def test_nothing_is_wrong(self, name: str) -> None:
        found = seen(name)
        assert pod_diagnosis.failure(found["pods"], found["events"]) is None
        assert pod_diagnosis.waiting(found["pods"], found["events"]) is None
        assert pod_diagnosis.failed(found["pods"]) == []

    @pytest.mark.parametrize("name", names("running"))
    def test_where_they_ran(self, name: str) -> None:
        pods = seen(name)["pods"]
        carriers = {pod["metadata"]["name"] for pod in pods if "-launcher-" not in pod["metadata"]["name"]}
        assert set(pod_diagnosis.placement(pods)) == carriers
        assert len(pod_diagnosis.nodes(pods)) == 2, "the launcher's is not a node of the workers"

    def test_a_pod_keeps_its_own_deadline_and_stays(self) -> None:
        for each in OWN_DEADLINES:
            pods = seen(f"{each}-deadline")["pods"]
            assert len(pods) == 2
            found = pod_diagnosis.failure(pods)
            assert found is not None
            assert found[0] is FailedReason.deadline_exceeded

    def test_of_a_job_that_its_deadline_ended_no_running_pod_is_left(self) -> None:
        assert seen("job-deadline")["pods"] == []
        roles = [pod["metadata"]["labels"]["scalecurve.dev/role"] for pod in seen("mpijob-deadline")["pods"]]
        assert roles == ["worker", "worker"], "the launcher is gone"


@pytest.mark.parametrize("name", [name for scenario in ("running", "succeeded", "queued") for name in names(scenario)])
def test_what_the_operator_keeps_of_a_job_reads_the_same(name: str) -> None:
    job = seen(name)["job"]
    assert kind(name).read(trim_job(job)) == kind(name).read(job)
