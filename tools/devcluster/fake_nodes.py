"""Nodes without machines: kwok plays their kubelets, and the player the containers of trials' pods."""

import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.devcluster import toolchain
from tools.devcluster.ground import Ground
from tools.devcluster.rest import Rest
from tools.devcluster.waiting import healthy, listens, wait_until

_HERE = Path(__file__).parent
_FAKE = "kwok.x-k8s.io/node"
"""Annotation of nodes that kwok plays."""


def start_kwok(ground: Ground) -> None:
    """It plays the nodes that carry its annotation, and no others."""
    port = ground.ports.take()
    ground.add(
        "kwok",
        [
            toolchain.binary("kwok"), f"--kubeconfig={ground.kubeconfig}", f"--config={_HERE / 'stages.yaml'}",
            "--manage-all-nodes=false", f"--manage-nodes-with-annotation-selector={_FAKE}=fake",
            "--cidr=10.0.0.1/8", "--node-ip=127.0.0.1", f"--node-port={ground.kubelet_port}",
            "--node-lease-duration-seconds=200", f"--server-address=127.0.0.1:{port}",
        ],
        lambda: healthy(f"http://127.0.0.1:{port}", "/healthz"),
    )  # fmt: skip


def start_player(ground: Ground) -> None:
    """It serves logs where the nodes say that their kubelet is."""
    port, certificate = ground.kubelet_port, ground.authority.folder / "kubelet.crt"
    player = [sys.executable, "-m", "tools.devcluster.player", f"{ground.kubeconfig}", f"--port={port}"]
    ground.add("player", [*player, f"--certificate={certificate}"], lambda: listens(port))


def add_nodes(rest: Rest, names: Sequence[str], kubelet_port: int, gpus: int, labels: Mapping[str, str]) -> None:
    """Make fake nodes, and wait until pods may be scheduled on them."""

    def add(name: str) -> None:
        rest.create("/api/v1/nodes", _node(name, kubelet_port, gpus, labels))

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(add, names))
    awaited = set(names)

    def schedulable() -> bool:
        nodes = rest.call("GET", "/api/v1/nodes")["items"]
        return awaited <= {node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")}

    wait_until(schedulable, f"{len(names)} schedulable nodes")


def _node(name: str, kubelet_port: int, gpus: int, labels: Mapping[str, str]) -> dict[str, object]:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "reason": "Played", "message": ""}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **labels},
            "annotations": {_FAKE: "fake"},
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        },
    }  # fmt: skip
