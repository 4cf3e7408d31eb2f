"""TrainJobs: what an attempt adds to a platform's runtime, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.runners import RUNNERS, JobRequestError
from scalecurve_operator.runners.job_set import LEAD, SERVERS, WORKERS
from tests.operator.runners.recordings import seen
from tests.operator.runners.runner_cases import job, request

KIND = RUNNERS[Runner.train_job]


def test_the_runtime_is_the_platforms_and_the_program_ours() -> None:
    tree = job(Runner.train_job, workers=16, trainingRuntime={"name": "ib", "kind": "TrainingRuntime"})
    spec, name = tree["spec"], tree["metadata"]["name"]
    assert spec["runtimeRef"] == {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "ib"}
    trainer = spec["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    assert trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == "8"
    env = {entry["name"]: entry.get("value") for entry in trainer["env"]}
    assert env["SCALECURVE_COORDINATOR"] == f"{name}-node-0-0.{name}:29500"
    assert not [variable for variable in env if variable.startswith("PET_")], "which Trainer's webhook refuses"
    (patch,) = spec["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    template = node["template"]["spec"]["template"]
    assert template["metadata"]["labels"]["scalecurve.dev/role"] == "worker"
    (container,) = template["spec"]["containers"]
    assert container.keys() == {"name", "volumeMounts", "securityContext"}, "all that a patch may hold"
    assert "restartPolicy" not in template["spec"]


def test_names_of_sets_are_short_enough_for_trainer() -> None:
    """Trainer 2.4 takes no name of a replicated job with more than 20 characters."""
    (patch,) = job(Runner.train_job, workers=16)["spec"]["runtimePatches"]
    patched = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert [len(each["name"]) <= 20 for each in patched] == [True]
    assert max(map(len, (WORKERS, LEAD, SERVERS))) <= 20


def test_the_default_runtime_is_trainers_own() -> None:
    assert job(Runner.train_job)["spec"]["runtimeRef"]["name"] == "torch-distributed"


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        ({"schedulerName": "kai"}, "schedulerName"),
        ({"hostNetwork": True}, "hostNetwork, dnsPolicy"),
        ({"imagePullPolicy": "Always"}, "imagePullPolicy"),
        ({"template": {"spec": {"containers": [{"name": "side", "image": "x"}]}}}, "side in containers"),
        ({"template": {"spec": {"resourceClaims": [{"name": "c"}]}}}, "resourceClaims"),
    ],
)
def test_what_no_patch_can_say_is_refused(pod: dict[str, Any], field: str) -> None:
    with pytest.raises(JobRequestError, match=rf"^spec\.pod: a TrainJob cannot set {field}; put it into the training"):
        KIND.render(request(runner=Runner.train_job, pod=pod))


def test_names_that_jobset_would_refuse_are_refused_before() -> None:
    asked = request(runner=Runner.train_job, workers=16)
    object.__setattr__(asked, "trial_object", "x" * 60)
    with pytest.raises(JobRequestError, match=r"^metadata\.name: "):
        KIND.render(asked)


def test_a_pod_that_ran_again_is_counted() -> None:
    pods = seen("trainjob-succeeded")["pods"]
    assert pod_diagnosis.restarts(pods) == 0
    pods[0]["status"]["containerStatuses"][0]["restartCount"] = 2
    assert pod_diagnosis.restarts(pods) == 2
    again = {**pods[1], "metadata": {**pods[1]["metadata"], "name": "another"}}
    assert pod_diagnosis.restarts([*pods, again]) == 3


def test_what_kueue_would_lose_is_not_set_in_a_queue() -> None:
    """Kueue 0.19 writes a TrainJob back in the terms of Trainer 2.2, and Trainer's JobSet may not change."""
    assert "terminationGracePeriodSeconds" in _pod_patch(job(Runner.train_job))
    assert "terminationGracePeriodSeconds" not in _pod_patch(job(Runner.train_job, queue="team"))
    with pytest.raises(JobRequestError, match=r"terminationGracePeriodSeconds beside spec\.queue"):
        job(Runner.train_job, queue="team", pod={"template": {"spec": {"terminationGracePeriodSeconds": 60}}})


def _pod_patch(tree: dict[str, Any]) -> dict[str, Any]:
    (patch,) = tree["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return dict(node["template"]["spec"]["template"]["spec"])
