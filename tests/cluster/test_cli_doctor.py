"""``scalecurve doctor`` before a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.cli_desk import Desk
from tests.cluster.kept import request
from tools.devcluster.tier import Tier

LABEL = "scalecurve.test/doctor"
LEASE_S = 1000
"""Doctor asks well within it, however busy the machine is."""


@pytest.fixture
def desk(tier: Tier, namespace: str, tmp_path: Path) -> Desk:
    return Desk(tier, tmp_path, namespace)


@pytest.fixture(scope="module")
def own_nodes(tier: Tier) -> Iterator[None]:
    """Two nodes that only these tests select."""
    names = tier.add_nodes(2, gpus=4, prefix="doctor", labels={LABEL: "yes"})
    yield
    tier.remove_nodes(names)


@pytest.fixture(autouse=True)
def no_other_operator(tier: Tier) -> None:
    """Operators of earlier tests leave released leases in their namespaces, which doctor rightly calls stopped."""
    for lease in tier.rest.call("GET", "/apis/coordination.k8s.io/v1/leases")["items"]:
        metadata = lease["metadata"]
        if metadata["name"] == "scalecurve-operator":
            path = f"/apis/coordination.k8s.io/v1/namespaces/{metadata['namespace']}/leases/{metadata['name']}"
            tier.rest.raw("DELETE", path)


@pytest.fixture
def leased(tier: Tier, desk: Desk) -> None:
    lease(tier, desk.namespace, timedelta(0))


def lease(tier: Tier, namespace: str, age: timedelta, holder: str = "operator-0", served: str = "") -> None:
    renewed = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_S, "renewTime": renewed}
    metadata = {"name": "scalecurve-operator", "annotations": {"scalecurve.dev/namespaces": served}}
    body = {"metadata": metadata, "spec": spec}
    tier.rest.create(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", body)


def experiment(desk: Desk, **spec: Any) -> Path:
    path = desk.folder / "e.yaml"
    pod = {"nodeSelector": {LABEL: "yes"}, **spec.pop("pod", {})}
    path.write_text(yaml.safe_dump(request("seen", **{**spec, "pod": pod})))
    return path


def rows(ran: Any) -> dict[str, dict[str, Any]]:
    """By what they are about; of what comes several times, the first that is not good."""
    found: dict[str, dict[str, Any]] = {}
    for row in ran.json["cluster"]["rows"]:
        if row["what"] not in found or (found[row["what"]]["good"] is True and row["good"] is not True):
            found[row["what"]] = row
    return found


def test_a_cluster_that_has_everything(desk: Desk, own_nodes: None, leased: None) -> None:
    file = experiment(
        desk,
        scaling={"modes": ["weak"], "workers": [1, 4, 8], "batch": {"perWorker": 8}},
        placement={"workersPerNode": 4},
        resources={"limits": {"nvidia.com/gpu": 1}},
        runner="PyTorchJob",
    )
    found = rows(desk("doctor", file, "-o", "json"))
    assert found["API server"]["found"].startswith("v1.")
    assert found["definitions"]["found"] == "scalingexperiments, scalingtrials in v1alpha1"
    assert found["runner PyTorchJob"]["good"] is True
    assert found["nodes"]["found"].endswith("ready for pods matching spec.pod: 2 with 4 nvidia.com/gpu")
    assert found["layout 2x4"]["found"] == "needs 2 nodes with 4 nvidia.com/gpu each; 2 have that free now"
    assert found["Pod Security"]["good"] is True
    assert "This machine" not in desk("doctor", file).out


def test_an_experiment_that_cannot_start(desk: Desk, own_nodes: None, leased: None, tier: Tier) -> None:
    tier.rest.call(
        "PATCH",
        f"/api/v1/namespaces/{desk.namespace}",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
        kind="application/merge-patch+json",
    )
    tier.rest.create(
        f"/api/v1/namespaces/{desk.namespace}/resourcequotas",
        {"metadata": {"name": "few"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8", "limits.cpu": "4"}}},
    )
    file = experiment(
        desk,
        scaling={"modes": ["weak"], "workers": [4, 16], "batch": {"perWorker": 8}},
        placement={"workersPerNode": 4},
        resources={"limits": {"nvidia.com/gpu": 1}},
        queue="absent",
        results={"claim": "absent"},
        pod={"hostNetwork": True},
    )
    found = rows(desk("doctor", file, "-o", "json", code=3))
    assert found["layout 1x4"]["good"] is True
    assert found["layout 4x4"]["found"] == "needs 4 nodes with 4 nvidia.com/gpu each; 2 have that in total"
    assert found["Pod Security"]["found"] == "restricted refuses spec.pod.hostNetwork"
    assert found["queue"]["found"] == "Kueue is not installed"
    assert found["claim"]["found"] == "no PersistentVolumeClaim absent"
    assert found["quota"]["good"] is False
    assert all(row["do"] for row in found.values() if row["good"] is not True)


@pytest.mark.parametrize(
    ("runtime", "found", "do"),
    [
        ({}, "ClusterTrainingRuntime torch-distributed", None),
        (
            {"name": "ours"},
            "no ClusterTrainingRuntime ours",
            "set spec.trainingRuntime.name to torch-distributed",
        ),
        ({"name": "ours", "kind": "TrainingRuntime"}, "no TrainingRuntime ours", "create a TrainingRuntime"),
    ],
)
def test_the_runtime_of_a_train_job_must_be_there(
    desk: Desk, own_nodes: None, leased: None, runtime: dict[str, str], found: str, do: str | None
) -> None:
    file = experiment(desk, runner="TrainJob", trainingRuntime=runtime)
    row = rows(desk("doctor", file, "-o", "json", code=3 if do else 0))["training runtime"]
    assert (row["found"], row["do"], row["good"]) == (found, do, do is None)


def test_what_others_use_is_waited_for(desk: Desk, own_nodes: None, leased: None, tier: Tier) -> None:
    gpus = {"limits": {"nvidia.com/gpu": "3"}}
    spec = {"nodeName": "doctor-0", "containers": [{"name": "c", "image": "i", "resources": gpus}]}
    pod = f"/api/v1/namespaces/{desk.namespace}/pods"
    tier.rest.create(pod, {"metadata": {"name": "other"}, "spec": spec})
    file = experiment(
        desk,
        scaling={"modes": ["weak"], "workers": [1, 8], "batch": {"perWorker": 8}},
        placement={"workersPerNode": 4},
        resources={"limits": {"nvidia.com/gpu": 1}},
    )
    found = rows(desk("doctor", file, "-o", "json"))
    assert found["runner"]["found"] == "JobSet: carries every program"
    assert found["layout 1x1"]["found"].endswith("2 have that free now")
    assert found["layout 2x4"]["good"] is None
    assert found["layout 2x4"]["found"].endswith("1 have that free now")
    tier.rest.raw("DELETE", f"{pod}/other")


def test_nothing_that_can_carry_the_program(
    desk: Desk, own_nodes: None, leased: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scalecurve.cluster import doctor

    monkeypatch.setattr(doctor, "_serves_kind", lambda cluster, runner: False)
    file = experiment(desk, workload={"program": "horovod"})
    found = rows(desk("doctor", file, "-o", "json", code=3))["runner"]
    assert (found["found"], found["good"]) == ("nothing that can carry the program", False)
    assert found["do"].startswith("install ")


@pytest.mark.parametrize(("age", "good"), [(5, True), (10 * LEASE_S, False)])
def test_the_operator_by_its_lease(desk: Desk, tier: Tier, age: int, good: bool) -> None:
    lease(tier, desk.namespace, timedelta(seconds=age))
    ran = desk("doctor", "--cluster", "-o", "json", code=0 if good else 3)
    (mine,) = [row for row in ran.json["cluster"]["rows"] if f"operator-0 in {desk.namespace}" in row["found"]]
    assert mine["good"] is good
    assert good or "stopped, or clocks differ" in mine["found"]
    base = Path(__file__).parents[2] / "manifests" / "base" / "operator.yaml"
    (deployment,) = [each for each in yaml.safe_load_all(base.read_text()) if each["kind"] == "Deployment"]
    label = "app.kubernetes.io/component"
    component = deployment["spec"]["template"]["metadata"]["labels"][label]
    assert good or mine["do"].endswith(f"logs -l {label}={component}")


def test_who_may_look_at_little_is_told_so(desk: Desk, tier: Tier) -> None:
    desk.where = ["--kubeconfig", str(tier.user("nobody")), "-n", desk.namespace]
    found = rows(desk("doctor", "--cluster", "-o", "json", code=3))
    assert found["permission"]["found"] == "you may not create scalingexperiments.scalecurve.dev"
    assert found["permission"]["do"] == f"request the role edit in {desk.namespace}, to start experiments"
    for what in ("nodes", "operator", "quota", "Pod Security"):
        assert found[what]["good"] is None
        assert found[what]["do"] == "could not be checked; request permission to read it"


def test_a_cluster_without_scalecurve(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scalecurve.cluster import doctor

    monkeypatch.setattr(doctor, "_GROUP", "absent.dev")
    assert rows(desk("doctor", "--cluster", "-o", "json", code=3))["definitions"]["found"] == "not installed"
    monkeypatch.setattr(doctor, "_VERSION", "v9")
    monkeypatch.setattr(doctor, "_GROUP", "scalecurve.dev")
    found = rows(desk("doctor", "--cluster", "-o", "json", code=3))["definitions"]["found"]
    assert found == "served in v1alpha1, not v9"


def test_this_machine_first_and_the_current_cluster_beside_it(
    desk: Desk, tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.where = []
    monkeypatch.setenv("KUBECONFIG", str(tier.kubeconfig))
    ran = desk("doctor")
    assert ran.out.startswith("This machine\n")
    assert "Namespace default of https://127.0.0.1" in ran.out
    dead = desk.folder / "dead.kubeconfig"
    dead.write_text(tier.kubeconfig.read_text().replace(tier.server, "https://127.0.0.1:1"))
    monkeypatch.setenv("KUBECONFIG", str(dead))
    ran = desk("doctor")
    assert "no answer from https://127.0.0.1:1" in ran.err
    assert "Namespace" not in ran.out


def test_an_operator_that_serves_other_namespaces_only(desk: Desk, tier: Tier) -> None:
    lease(tier, desk.namespace, timedelta(0), served="team-a,team-b")
    (row,) = [
        row
        for row in desk("doctor", "--cluster", "-o", "json", code=3).json["cluster"]["rows"]
        if row["what"] == "operator"
    ]
    assert row["good"] is False
    assert f"serves team-a,team-b, not {desk.namespace}" in row["found"]
    assert "--set namespaces=" in row["do"]
