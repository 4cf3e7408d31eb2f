"""Real nodes: what tests on them may rely on."""

from __future__ import annotations

from nodes import RealCluster


def test_two_nodes_are_ready(real_cluster: RealCluster) -> None:
    nodes = real_cluster.rest.call("GET", "/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node1", "node2"]
