"""Whoever may create pods in a namespace, or experiments of any size, changes no number and stops no operator."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.spec.object_names import TRIAL_LABEL
from tests.cluster.applied import Applied, Object, manifest
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess
from tests.cluster.test_operator_hostile import rss_mib
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

SECONDS, HUGE = 4.0, 40
_OURS = ("scalecurve.dev/", "app.kubernetes.io/", "batch.kubernetes.io/job-completion-index")


def pods(tier: Tier, namespace: str) -> list[Object]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={TRIAL_LABEL}"
    return [pod for pod in tier.rest.call("GET", path)["items"] if pod["status"].get("phase") == "Running"]


def test_a_pod_with_a_trials_labels_speaks_for_nobody(tier: Tier, namespace: str, tmp_path: Path) -> None:
    """It was the newest at its position: its termination message and its log were taken for the trial's."""
    with OperatorProcess(tier, namespace):
        applied = Applied.apply(tier, manifest(namespace, workers=(1,), seconds=SECONDS))
        wait_until(lambda: bool(pods(tier, namespace)), "the trial's pod")
        (real,) = pods(tier, namespace)
        time.sleep(1.1)  # creation has a resolution of a second
        container = real["spec"]["containers"][0]
        impostor = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "impostor",
                "labels": {name: text for name, text in real["metadata"]["labels"].items() if name.startswith(_OURS)},
            },
            "spec": {
                "schedulingGates": [{"name": "example.com/never"}],
                "containers": [{"name": container["name"], "image": "played"}],
            },
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        tier.rest.call("POST", path, impostor)
        ended = {"exitCode": 1, "reason": "Error", "message": "forged", "finishedAt": "2026-01-01T00:00:00Z"}
        state = {"name": container["name"], "state": {"terminated": ended}, "ready": False, "restartCount": 0}
        status = {"phase": "Failed", "containerStatuses": [{**state, "image": "played", "imageID": "played"}]}
        tier.rest.call("PATCH", f"{path}/impostor/status", {"status": status}, "application/merge-patch+json")
        assert applied.final()["phase"] == "Succeeded", applied.trials()
        assert tier.rest.call("GET", f"{path}/impostor")["metadata"]["name"] == "impostor", "nobody's to delete"
    desk = Desk(tier, tmp_path, namespace)
    desk("pull", applied.name, "--into", "b")
    (trial,) = open_bundle(tmp_path / "b").trials
    assert trial.record is not None
    assert [rank.pod for rank in trial.record.topology] == [real["metadata"]["name"]]


@pytest.mark.timeout(300)
def test_huge_experiments_cost_their_owner_alone(tier: Tier, namespace: str) -> None:
    """Forty of 1.2 MB, as the API server takes them; the operator may have 512 MiB of addresses."""
    with OperatorProcess(tier, namespace) as operator:
        resource.prlimit(operator.pid, resource.RLIMIT_AS, (512 << 20, 512 << 20))
        before = rss_mib(operator.pid)
        huge = {f"A{number}": "x" * 6500 for number in range(190)}
        made = [Applied.apply(tier, manifest(namespace, name=f"h{n}", workload={"env": huge})) for n in range(HUGE)]
        last = Applied.apply(tier, manifest(namespace, name="good"))
        assert last.final(120)["phase"] == "Succeeded"
        for each in made:
            assert each.final(60)["phase"] == "Failed"
            (accepted,) = [entry for entry in each.status["conditions"] if entry["type"] == "Accepted"]
            assert "spec: 1,2" in accepted["message"]
            assert "at most 262,144: keep long commands and variables in files of the image" in accepted["message"]
            assert each.trials() == {}
        kept = rss_mib(operator.pid) - before
        print(f"{HUGE} experiments of 1.2 MB: {kept:.0f} MiB more")
        assert kept < 0.5 * HUGE * 1.2, "it keeps their sizes, not their text"
        assert operator.alive
