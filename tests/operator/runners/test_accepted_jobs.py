"""Every golden manifest is accepted by a real API server, with the job operators' CRDs and webhooks behind it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.runners.runner_cases import CASES, manifests

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
ASK_MORE = [name for name in CASES if "everything" in name]
# What these platforms need, Pod Security "restricted" does not give: capabilities, folders of the node, NFS, containers
# of other people's. The others fit.
PLATFORMS_ASK_MORE = ("efa", "gke-tcpxo", "infiniband", "secrets", "sidecar", "jobset-sidecar")
PATCHES_ASK_MORE = (
    *("aks-infiniband", "csi-secrets", "gdrcopy", "gke-rdma", "gke-tcpx", "git-sync", "node-local-disk", "oci-rdma"),
    *("profiler", "sriov-networks", "image-volume"),
)
FIT = [
    name
    for name in CASES
    if name
    not in (
        *ASK_MORE,
        *(f"platform-{each}" for each in PLATFORMS_ASK_MORE),
        *(f"patch-{each}" for each in PATCHES_ASK_MORE),
    )
]
pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("accepted")]


def path(tree: dict[str, Any], namespace: str) -> str:
    """Where the API server keeps objects like this; strict, so that an unknown field is an error and not dropped."""
    version = tree["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{tree['kind'].lower()}s?dryRun=All&fieldValidation=Strict"


@pytest.fixture(scope="module")
def team(tier: Any) -> str:
    """The golden manifests' namespace."""
    return str(tier.namespace("team-a"))


@pytest.fixture(scope="module")
def restricted(tier: Any) -> str:
    """A namespace under Pod Security."""
    name = str(tier.namespace("restricted"))
    labels = {"metadata": {"labels": RESTRICTED}}
    tier.rest.call("PATCH", f"/api/v1/namespaces/{name}", labels, "application/merge-patch+json")
    return name


def templates(name: str) -> list[dict[str, Any]]:
    spec = manifests(name)[0]["spec"]
    if sets := spec.get("replicatedJobs"):
        return [each["template"]["spec"]["template"] for each in sets]
    replicas = next((each for field, each in spec.items() if field.endswith("ReplicaSpecs")), None)
    return [each["template"] for each in replicas.values()] if replicas else [spec["template"]]


def create_pods(tier: Any, namespace: str, name: str) -> None:
    for template in templates(name):
        spec = {**template["spec"], "runtimeClassName": None, "priorityClassName": None, "serviceAccountName": None}
        metadata = {**template["metadata"], "name": "golden"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        tier.rest.call("POST", path(pod, namespace), pod)


@pytest.mark.parametrize("name", CASES)
def test_the_api_server_takes_every_golden_manifest(name: str, tier: Any, team: str) -> None:
    for tree in manifests(name):
        taken = tier.rest.call("POST", path(tree, team), tree)
        assert taken["metadata"]["labels"].items() >= tree["metadata"]["labels"].items()


@pytest.mark.parametrize("name", CASES)
def test_the_api_server_takes_their_pods(name: str, tier: Any, team: str) -> None:
    """The CRDs of kubeflow.org check little of a pod template."""
    create_pods(tier, team, name)


@pytest.mark.parametrize("name", FIT)
def test_pods_fit_pod_security_restricted(name: str, tier: Any, restricted: str) -> None:
    create_pods(tier, restricted, name)


@pytest.mark.parametrize("name", ASK_MORE)
def test_only_who_asks_for_more_needs_more(name: str, tier: Any, restricted: str) -> None:
    with pytest.raises(RuntimeError, match="violates PodSecurity") as refused:
        create_pods(tier, restricted, name)
    said = str(refused.value)
    assert "hostNetwork=true" in said
    assert "IPC_LOCK" in said
    assert "seccompProfile" not in said
    assert "allowPrivilegeEscalation" not in said
