"""Which fabric and platform a cluster has, as its nodes and API groups show it, and the overlay for each. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalecurve_api.model import canonical_json
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.text import count as counted

OVERLAYS = "manifests/platforms"
_RDMA = ("rdma/", "nvidia.com/hostdev", "nvidia.com/mlnxnics", "openshift.io/mlxnics", "nvidia.com/rdma")
_EFA = "vpc.amazonaws.com/efa"
_CLIQUE = "nvidia.com/gpu.clique"
_ACCELERATOR, _MEGA = "cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb"
_NO_FABRIC = "plain Ethernet: no node offers an RDMA device"


@dataclass(frozen=True)
class DetectedPlatform:
    """One thing that was detected; ``marks`` are what an experiment that uses it names, any of which is enough."""

    name: str  # of its overlay
    found: str
    marks: tuple[str, ...]


def detected(nodes: Sequence[Mapping[str, Any]], groups: Collection[str]) -> list[DetectedPlatform]:
    """Every platform of the nodes; ``groups`` are the API groups that the cluster serves."""
    return [*_node_platforms(nodes), *_group_platforms(groups)]


def fabric(nodes: Sequence[Mapping[str, Any]]) -> str | None:
    """That there is none beyond Ethernet; None where one was detected, or where there are no nodes."""
    known = any(platform.name != "nvl72" for platform in _node_platforms(nodes))
    return None if known or not nodes else _NO_FABRIC


def uses(spec: ExperimentSpec, platform: DetectedPlatform) -> bool:
    """Whether the experiment names what its platform's overlay brings, by that overlay or by other means."""
    text = canonical_json({"pod": spec.pod.wire(), "limits": dict(spec.resources.limits)})
    return any(mark in text for mark in platform.marks)


def _node_platforms(nodes: Sequence[Mapping[str, Any]]) -> Iterator[DetectedPlatform]:
    rdma: dict[str, int] = {}
    for node in nodes:
        for name, amount in _allocatable(node).items():
            if name.startswith(_RDMA) and str(amount) != "0":
                rdma[name] = rdma.get(name, 0) + 1
    if rdma:
        listed = ", ".join(
            f"{name} on {count} of {counted(len(nodes), 'node')}" for name, count in sorted(rdma.items())
        )
        yield DetectedPlatform("infiniband", f"InfiniBand or RoCE: {listed}", tuple(rdma))
    if count := sum(str(_allocatable(node).get(_EFA, 0)) != "0" for node in nodes):
        yield DetectedPlatform("efa", f"AWS EFA: {_EFA} on {count} of {counted(len(nodes), 'node')}", (_EFA,))
    if count := sum(_labels(node).get(_ACCELERATOR) == _MEGA for node in nodes):
        found = f"GPUDirect-TCPXO: {_ACCELERATOR}={_MEGA} on {count} of {counted(len(nodes), 'node')}"
        yield DetectedPlatform("gke-tcpxo", found, ("tcpxo",))
    cliques = {clique for node in nodes if (clique := _labels(node).get(_CLIQUE))}
    if cliques:
        yield DetectedPlatform(
            "nvl72", f"NVLink between nodes: {len(cliques)} domains by label {_CLIQUE}", ("resourceClaims",)
        )


def _group_platforms(groups: Collection[str]) -> Iterator[DetectedPlatform]:
    if "security.openshift.io" in groups:
        yield DetectedPlatform("openshift", "OpenShift: the API group security.openshift.io", ('"platformUser":true',))


def _allocatable(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return (node.get("status") or {}).get("allocatable") or {}


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
