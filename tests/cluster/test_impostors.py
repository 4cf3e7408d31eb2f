"""Whoever may create pods in a namespace, or experiments of any size, changes no number and stops no operator."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.spec.object_names import TRIAL_LABEL
from tests.cluster.applied import Applied, Object, manifest, next_second
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess
from tests.cluster.test_operator_hostile import rss_mib
from tests.waiting import eventually
from tools.devcluster.tier import Tier

SECONDS = 4.0
HUGE, HUGE_MB = 40, 1.2
_OURS = ("scalecurve.dev/", "app.kubernetes.io/", "batch.kubernetes.io/job-completion-index")


def pods(tier: Tier, namespace: str) -> list[Object]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={TRIAL_LABEL}"
    return [pod for pod in tier.rest.call("GET", path)["items"] if pod["status"].get("phase") == "Running"]


def test_a_pod_with_a_trials_labels_speaks_for_nobody(tier: Tier, namespace: str, tmp_path: Path) -> None:
    """It was the newest at its position: its termination message and its log were taken for the trial's."""
    with OperatorProcess(tier, namespace):
        applied = Applied.apply(tier, manifest(namespace, workers=(1,), seconds=SECONDS))
        eventually(lambda: bool(pods(tier, namespace)), "the trial's pod")
        (real,) = pods(tier, namespace)
        next_second()
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


def refuse_huge(tier: Tier, namespace: str, batch: str) -> None:
    """Forty of 1.2 MB, as the API server takes them, and a good one beside them that is run."""
    huge = {f"A{number}": "x" * 6500 for number in range(190)}
    made = [Applied.apply(tier, manifest(namespace, name=f"{batch}{n}", workload={"env": huge})) for n in range(HUGE)]
    assert Applied.apply(tier, manifest(namespace, name=f"{batch}-good")).final()["phase"] == "Succeeded"
    for each in made:
        assert each.final()["phase"] == "Failed"
        (accepted,) = [entry for entry in each.status["conditions"] if entry["type"] == "Accepted"]
        assert "spec: 1,2" in accepted["message"]
        assert "at most 262,144: keep long commands and variables in files of the image" in accepted["message"]
        assert each.trials() == {}


@pytest.mark.timeout(900)
def test_huge_experiments_cost_their_owner_alone(tier: Tier, namespace: str) -> None:
    """The operator may have 512 MiB of addresses.

    What the first forty leave behind is also room that the allocator keeps for the next ones; the second forty find it,
    so that what is more after them is what was kept of them: 48 MB of text, or next to nothing.
    """
    with OperatorProcess(tier, namespace) as operator:
        resource.prlimit(operator.pid, resource.RLIMIT_AS, (512 << 20, 512 << 20))
        empty = rss_mib(operator.pid)
        refuse_huge(tier, namespace, "first")
        before = rss_mib(operator.pid)
        refuse_huge(tier, namespace, "second")
        text = HUGE * HUGE_MB * 1e6 / (1 << 20)
        # Its last events may still be on their way through.
        eventually(lambda: rss_mib(operator.pid) - before < text / 2, "the operator to keep sizes, not texts")
        kept = rss_mib(operator.pid) - before
        print(f"{HUGE} experiments of {HUGE_MB} MB: {before - empty:.0f} MiB, then {kept:.0f} MiB more")
        assert operator.alive
