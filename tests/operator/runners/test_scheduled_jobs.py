"""Where a real scheduler puts the pods of an attempt: what the affinity promises, it keeps."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from scalecurve_api.planning.rotation import rotated
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.runner_cases import request
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("accepted")]
GPU = {"limits": {"nvidia.com/gpu": 1}}
NAMESPACES = (f"scheduled-{number}" for number in itertools.count())


def schedule(tier: Any, known: tuple[str, ...] = (), wanted: int | None = None, **options: Any) -> list[dict[str, Any]]:
    """The pods of a Job, once as many as ``wanted`` (all) have a node."""
    namespace = tier.namespace(next(NAMESPACES))
    asked = request(runner=Runner.job, nodes=known, resources=GPU, **options)
    job = RUNNERS[Runner.job].render(asked)
    job["metadata"]["namespace"] = namespace
    tier.rest.call("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)

    def decided() -> list[dict[str, Any]]:
        """The pods, once the scheduler has said of each where it goes, or that it goes nowhere."""
        pods = list(tier.rest.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])
        unplaced = [pod for pod in pods if not pod["spec"].get("nodeName") and pod["status"].get("conditions")]
        return pods if len(pods) == asked.pods == len(pod_diagnosis.placement(pods)) + len(unplaced) else []

    pods = eventually(decided, f"a place for each of {asked.pods} pods", poll_s=0.1)
    assert len(pod_diagnosis.placement(pods)) == (asked.pods if wanted is None else wanted)
    remove(tier, namespace)
    return pods


def remove(tier: Any, namespace: str) -> None:
    """Make room: no kubelet is there to let deleted pods go."""
    tier.rest.raw("DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs?propagationPolicy=Background")
    where = f"/api/v1/namespaces/{namespace}/pods"

    def gone() -> bool:
        tier.rest.raw("DELETE", f"{where}?gracePeriodSeconds=0")
        return not tier.rest.call("GET", where)["items"]

    eventually(gone, "the end of all pods", poll_s=0.1)


def spread(pods: list[dict[str, Any]]) -> list[int]:
    return sorted(Counter(pod_diagnosis.placement(pods).values()).values())


def test_one_pod_a_node(tier: Any) -> None:
    assert spread(schedule(tier, workers=4, placement={"workersPerNode": 1})) == [1, 1, 1, 1]


def test_more_pods_than_nodes_stay_unplaced(tier: Any) -> None:
    pods = schedule(tier, workers=5, wanted=4, placement={"workersPerNode": 1})
    assert spread(pods) == [1, 1, 1, 1]
    assert "didn't match pod anti-affinity rules" in (pod_diagnosis.waiting(pods) or "")


def test_two_pods_a_node_fill_as_few_nodes(tier: Any) -> None:
    """There is room for eight pods on every node."""
    pods = schedule(tier, workers=4, placement={"workersPerNode": 2, "podsPerNode": 2})
    assert spread(pods) == [2, 2]


def test_never_more_than_two_pods_a_node(tier: Any) -> None:
    pods = schedule(tier, workers=10, wanted=8, placement={"workersPerNode": 2, "podsPerNode": 2})
    assert spread(pods) == [2, 2, 2, 2]


def test_the_pods_of_one_node_stay_together(tier: Any) -> None:
    assert spread(schedule(tier, workers=4, placement={"workersPerNode": 4, "podsPerNode": 4})) == [4]


def test_a_series_nests(tier: Any) -> None:
    known: tuple[str, ...] = ("node-2", "node-0", "node-1")
    for workers in (1, 2, 3):
        placement = {"workersPerNode": 1, "nesting": "prefer"}
        found = pod_diagnosis.nodes(schedule(tier, known, workers=workers, placement=placement))
        order = [known[at] for at in rotated(len(known), 0, 0)]
        assert set(found) == set(order[:workers])
    four = schedule(tier, known, workers=4, placement={"workersPerNode": 1, "nesting": "require"})
    assert set(pod_diagnosis.nodes(four)) == {*known, "node-3"}


def test_a_baseline_moves_on_from_repetition_to_repetition(tier: Any) -> None:
    known = ("node-2", "node-0", "node-1")
    placement = {"workersPerNode": 1, "nesting": "prefer"}
    found = [
        pod_diagnosis.nodes(schedule(tier, known, workers=1, repetition=repetition, placement=placement))
        for repetition in range(3)
    ]
    assert {node for nodes in found for node in nodes} == set(known)


def test_a_further_session_prefers_nodes_that_none_before_has_used(tier: Any) -> None:
    placement = {"workersPerNode": 1, "nesting": "prefer"}
    earlier = ("node-0", "node-1", "node-2")
    pods = schedule(tier, earlier_nodes=earlier, workers=1, placement=placement)
    assert pod_diagnosis.nodes(pods) == ("node-3",)
    more = schedule(tier, ("node-3",), earlier_nodes=earlier, workers=2, placement=placement)
    assert "node-3" in pod_diagnosis.nodes(more), "preferred only: there are no other nodes for the second"


def test_a_required_nesting_waits_for_its_nodes(tier: Any) -> None:
    pods = schedule(tier, ("gone",), workers=1, wanted=0, placement={"workersPerNode": 1, "nesting": "require"})
    assert "NodeAffinity" in (pod_diagnosis.waiting(pods) or "")


def test_nodes_whose_hostname_label_is_not_their_name(tier: Any) -> None:
    """As on some clouds and on bare metal: a series keeps to nodes by name."""
    names = [
        *tier.add_nodes(1, prefix="ip-10-0-0-1", labels={"kubernetes.io/hostname": "gpu-host-1"}),
        *tier.add_nodes(1, prefix="ip-10-0-0-2", labels={"kubernetes.io/hostname": "gpu-host-2"}),
    ]
    try:
        for nesting in ("require", "prefer"):
            pods = schedule(tier, tuple(names), workers=2, placement={"workersPerNode": 1, "nesting": nesting})
            assert set(pod_diagnosis.nodes(pods)) == set(names)
    finally:
        tier.remove_nodes(names)
