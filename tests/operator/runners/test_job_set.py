"""JobSets: what replaces mpi-operator and training-operator."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.runner_cases import case, env, job, manifests

KIND = RUNNERS[Runner.job_set]


def sets(name: str) -> dict[str, dict[str, Any]]:
    """Pod templates of a golden case, by set."""
    found = manifests(name)[0]["spec"]["replicatedJobs"]
    return {each["name"]: each["template"]["spec"]["template"] for each in found}


def test_mpirun_finds_the_workers_by_their_names() -> None:
    found = sets("jobset-mpi")
    assert found.keys() == {"w", "lead"}
    assert env(found["lead"])["SCALECURVE_POD_ROLE"] == "launcher"
    name = manifests("jobset-mpi")[0]["metadata"]["name"]
    assert env(found["lead"])["SCALECURVE_HOSTS"] == f"{name}-w-0-{{}}.{name}"
    assert found["w"]["spec"]["containers"][0]["command"][-1] == "scalecurve_worker.launch.sshd"
    assert "SCALECURVE_POD_ROLE" not in env(found["w"])


def test_it_ends_with_its_launcher_or_chief() -> None:
    for name in ("jobset-mpi", "jobset-parameter-server"):
        assert manifests(name)[0]["spec"]["successPolicy"]["targetReplicatedJobs"] == ["lead"]
    assert "successPolicy" not in manifests("jobset-2x8")[0]["spec"]


def test_servers_and_chief_use_no_device() -> None:
    found = sets("jobset-parameter-server")
    limits = {name: each["spec"]["containers"][0]["resources"]["limits"] for name, each in found.items()}
    assert {name for name, each in limits.items() if "nvidia.com/gpu" in each} == {"w"}
    assert env(found["ps"])["SCALECURVE_POD_ROLE"] == "ps"
    assert env(found["lead"])["SCALECURVE_POD_ROLE"] == "chief"


@pytest.mark.parametrize("name", ["jobset-mpi", "jobset-parameter-server", "jobset-2x8"])
def test_the_longest_names_fit_what_jobset_allows(name: str) -> None:
    """A trial's name of 45 characters, and 4096 pods."""
    longest = {"w": 4095, "lead": 0, "ps": 99}
    for each in sets(name):
        assert len(f"{'x' * 45}-a1-{each}-0-{longest[each]}-abcde") <= 63


def test_running_is_when_every_set_is_up() -> None:
    tree = job(Runner.job_set, workers=16, workload={"program": "horovod"})
    up = {"name": "w", "ready": 1, "succeeded": 0}
    tree["status"] = {"replicatedJobsStatus": [up]}
    assert KIND.read(tree).state is Job.starting
    tree["status"]["replicatedJobsStatus"].append({"name": "lead", "ready": 0, "succeeded": 1})
    assert KIND.read(tree).state is Job.running


def test_what_its_queue_released_is_queued_until_its_controller_says_so() -> None:
    tree = job(Runner.job_set, queue="team")
    assert KIND.read(tree).state is Job.queued
    tree["spec"]["suspend"] = False
    tree["status"] = {"conditions": [{"type": "Suspended", "status": "True", "reason": "SuspendedJobs"}]}
    assert KIND.read(tree).state is Job.queued
    at = "2026-11-21T23:13:39Z"
    tree["status"]["conditions"] = [{"type": "Suspended", "status": "False", "lastTransitionTime": at}]
    reading = KIND.read(tree)
    assert (reading.state, reading.resumed_at) == (Job.starting, at)


def test_the_record_is_the_leaders() -> None:
    index = "batch.kubernetes.io/job-completion-index"

    def pod(name: str, role: str, number: int) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {"scalecurve.dev/role": role, index: str(number)}}}

    workers = [pod("w1", "worker", 1), pod("w0", "worker", 0)]
    assert KIND.recording_pod(workers) is workers[1]
    for role in ("launcher", "chief"):
        lead = pod("lead", role, 0)
        assert KIND.recording_pod([*workers, lead]) is lead
    assert KIND.recording_pod([pod("ps", "ps", 0)]) is None


def test_its_pods_are_counted() -> None:
    assert KIND.pods(case("jobset-mpi")) == 3
    assert KIND.pods(case("jobset-parameter-server")) == 4
