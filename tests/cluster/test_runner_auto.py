"""``runner: auto`` on API servers with different kinds of job installed."""

from __future__ import annotations

from typing import Any

from tests.cluster.applied import Applied, manifest
from tests.cluster.operator_process import OperatorProcess
from tests.waiting import eventually
from tools.devcluster import toolchain
from tools.devcluster.tier import Tier

HOROVOD = {"program": "horovod"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _auto(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    tree = manifest(namespace, name=name, **spec)
    tree["spec"]["runner"] = "auto"
    return tree


def _runners_of_trials(applied: Applied) -> set[str]:
    path = f"{applied.path.rpartition('/')[0].rpartition('/')[0]}/scalingtrials"
    return {trial["spec"]["runner"] for trial in applied.tier.rest.call("GET", path)["items"]}


def test_everything_is_installed(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, _auto(namespace, "several"))
    status = applied.final()
    assert (status["phase"], status["runner"]) == ("Succeeded", "JobSet")
    assert status["runnerReason"] == "carries every program"
    assert _runners_of_trials(applied) == {"JobSet"}
    events = tier.rest.call("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    assert "JobSet: carries every program" in [each["message"] for each in events if each["reason"] == "RunnerChosen"]


def test_one_pod_needs_nothing(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    tree = _auto(namespace, "single", workers=(1,))
    del tree["spec"]["runner"]
    status = Applied.apply(tier, tree).final()
    assert (status["phase"], status["runner"], status["runnerReason"]) == ("Succeeded", "Job", "every point is one pod")


def test_nothing_is_installed_and_then_something_is() -> None:
    """What was begun under a plain Job stays there; what only others can carry waits for them."""
    with Tier(operators=(), player=True) as bare:
        bare.add_nodes(2)
        namespace = bare.namespace("bare")
        with OperatorProcess(bare, namespace, settings={"LEASE_SECONDS": "15"}):
            waits = Applied.apply(bare, _auto(namespace, "waits", workload=HOROVOD))
            begun = Applied.apply(bare, _auto(namespace, "begun", seconds=600, play="hang"))
            eventually(lambda: begun.status.get("startedAt"), "a trial of the first")
            assert begun.status["runner"] == "Job"
            assert begun.status["runnerReason"].endswith("not installed: JobSet, TrainJob, PyTorchJob")
            eventually(lambda: waits.status.get("conditions"), "conditions")
            (admitted,) = [each for each in waits.status["conditions"] if each["type"] == "Admitted"]
            assert admitted["reason"] == "RunnerMissing"
            assert "JobSet 0.8 or newer, or mpi-operator 0.5 or newer" in admitted["message"]
            assert "runner" not in waits.status
            _install_jobsets(bare)
            eventually(lambda: waits.status.get("runner"), "the choice of a runner")
            assert waits.status["runner"] == "JobSet"
            assert begun.status["runner"] == "Job"


def _install_jobsets(bare: Tier) -> None:
    file = toolchain.source_file("jobset", "jobset.x-k8s.io_jobsets.yaml")
    bare.rest.apply(f"{DEFINITIONS}/jobsets.jobset.x-k8s.io", file.read_bytes())
