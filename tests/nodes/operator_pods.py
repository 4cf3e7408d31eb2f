"""The pods of an installed operator, and one killed."""

from __future__ import annotations

from typing import Any

from tools.devcluster.nodes.installed import NAMESPACE
from tools.devcluster.rest import RunningCluster
from tools.devcluster.waiting import wait_until

Object = dict[str, Any]


def operator_pods(cluster: RunningCluster) -> list[Object]:
    """Oldest first; none for a moment after one was deleted."""
    query = "labelSelector=app.kubernetes.io/component=operator"
    pods = cluster.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{query}")["items"]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def replace_operator(cluster: RunningCluster) -> None:
    """Kill the operator's pod at once; its Deployment makes another, which is ready when this returns."""
    before = [pod["metadata"]["name"] for pod in operator_pods(cluster)]
    cluster.kubectl("-n", NAMESPACE, "delete", "pod", *before, "--grace-period=0", "--force")

    def another() -> bool:
        return any(_is_ready(pod) for pod in operator_pods(cluster) if pod["metadata"]["name"] not in before)

    wait_until(another, "another operator")


def _is_ready(pod: Object) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return bool(statuses) and all(status.get("ready") for status in statuses)
