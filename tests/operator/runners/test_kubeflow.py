"""Jobs of kubeflow.org: conditions that mislead."""

from __future__ import annotations

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.recordings import kind, seen

TRAINING = ("pytorchjob", "tfjob")


def test_when_its_queue_let_a_job_go() -> None:
    job = seen("mpijob-exit")["job"]
    assert kind("mpijob").read(job).resumed_at is None
    at = "2026-11-21T23:13:39Z"
    job["status"]["conditions"].append({"type": "Suspended", "status": "False", "lastTransitionTime": at})
    assert kind("mpijob").read(job).resumed_at == at


def test_a_running_condition_alone_is_not_every_pod() -> None:
    """training-operator says Running as soon as one pod does."""
    for each in TRAINING:
        job = seen(f"{each}-running")["job"]
        assert "Running" in {condition["type"] for condition in job["status"]["conditions"]}
        job["status"]["replicaStatuses"]["Worker"] = {}
        assert kind(each).read(job).state is Job.starting


def test_a_failed_replica_outweighs_a_successful_master() -> None:
    job = seen("pytorchjob-succeeded")["job"]
    job["status"]["conditions"].append({"type": "Failed", "status": "True", "reason": "PyTorchJobFailed"})
    assert kind("pytorchjob").read(job).succeeded is False


def test_parameter_servers_end_with_their_chief() -> None:
    found = seen("tfjob-chief")
    reading = RUNNERS[Runner.tf_job].read(found["job"])
    assert (reading.state, reading.succeeded) == (Job.ended, True)
    roles = {pod["metadata"]["labels"]["scalecurve.dev/role"]: pod["status"]["phase"] for pod in found["pods"]}
    assert roles == {"chief": "Succeeded", "ps": "Running", "worker": "Running"}
    recording = RUNNERS[Runner.tf_job].recording_pod(found["pods"])
    assert recording is not None
    assert recording["metadata"]["labels"]["scalecurve.dev/role"] == "chief"
    assert len(pod_diagnosis.nodes(found["pods"])) == 2, "of the workers only"
