"""Nodes and quotas, as the doctor reads them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from scalecurve.cluster.capacity import find_quota_excess, fits, requests, usable_nodes
from scalecurve_api.spec.experiment import ExperimentSpec


def spec(**changes: Any) -> ExperimentSpec:
    tree = {
        "scaling": {"modes": ["weak"], "workers": [1, 8], "batch": {"perWorker": 8}},
        "placement": {"workersPerNode": 4},
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "1500Mi"}},
    }
    return ExperimentSpec.model_validate({**tree, **changes})


def node(name: str, gpus: int = 4, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "7500m", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(on: str | None, gpus: int, phase: str = "Running") -> dict[str, Any]:
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "500m"}}}
    return {"spec": {"nodeName": on, "containers": [container]}, "status": {"phase": phase}}


def test_free_is_what_no_living_pod_has_asked_for() -> None:
    pods = [pod("a", 1), pod("a", 2), pod("a", 1, "Succeeded"), pod(None, 4), pod("b", 4, "Failed")]
    free = {each.name: each.free for each in usable_nodes([node("a"), node("b")], pods, None)}
    assert free["a"]["nvidia.com/gpu"] == 1
    assert free["a"]["cpu"] == Decimal("6.5")
    assert free["a"]["pods"] == 108
    assert free["b"]["nvidia.com/gpu"] == 4


def test_layouts_that_fit_now_ever_and_never() -> None:
    nodes = usable_nodes([node("a"), node("b"), node("c", gpus=2)], [pod("a", 1)], spec())
    found = {fit.layout: (fit.nodes, fit.ever, fit.now) for fit in fits(spec(), nodes)}
    assert found == {"1x1": (1, 3, 3), "2x4": (2, 2, 1)}
    memory = spec(resources={"limits": {"memory": "3Gi"}})
    assert [fit.ever for fit in fits(memory, nodes)] == [3, 0]


@pytest.mark.parametrize(
    ("changed", "pods", "usable"),
    [
        ({}, {}, True),
        ({"unschedulable": True}, {}, False),
        ({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, {}, False),
        ({"taints": [{"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"}]}, {}, True),
        (
            {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            True,
        ),
        (
            {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            {"tolerations": [{"key": "gpu", "value": "no"}]},
            False,
        ),
        ({"taints": [{"key": "x", "effect": "NoExecute"}]}, {"tolerations": [{"operator": "Exists"}]}, True),
        ({}, {"nodeSelector": {"disk": "ssd"}}, True),
        ({}, {"nodeSelector": {"disk": "hdd"}}, False),
    ],
)
def test_nodes_that_pods_may_go_to(changed: dict[str, Any], pods: dict[str, Any], usable: bool) -> None:
    found = usable_nodes([node("a", labels={"disk": "ssd"}, **changed)], [], spec(pod=pods))
    assert bool(found) is usable


def test_a_node_that_is_not_ready_counts_for_nothing() -> None:
    lost = node("a")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert usable_nodes([lost], [], None) == []


def test_init_containers_count_where_they_ask_for_more() -> None:
    asked = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "500m"}}}],
        "initContainers": [{"resources": {"requests": {"cpu": "4"}}}, {}],
    }
    assert requests(asked) == {"cpu": 4, "pods": 1}


def quota(hard: dict[str, str], **used: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "q"},
        "status": {"hard": hard, "used": {k.replace("_", "."): v for k, v in used.items()}},
    }


@pytest.mark.parametrize(
    ("quotas", "never", "now"),
    [
        ([], [], []),
        ([quota({"requests.nvidia.com/gpu": "8"})], [], []),
        (
            [quota({"requests.nvidia.com/gpu": "7"})],
            ["quota q allows 7 requests.nvidia.com/gpu, and weak-8-2x4 needs 8"],
            [],
        ),
        ([quota({"pods": "3"}, pods="2")], [], ["quota q has 1 of 3 pods left, and weak-8-2x4 needs 2"]),
        ([quota({"services": "0"})], [], []),
        (
            [quota({"limits.cpu": "100"})],
            ["quota q limits limits.cpu, so every pod must declare it: set spec.resources.limits.cpu"],
            [],
        ),
        ([quota({"memory": "12Gi"})], [], []),
    ],
)
def test_quotas(quotas: list[dict[str, Any]], never: list[str], now: list[str]) -> None:
    assert find_quota_excess(spec(), quotas) == (never, now)


def test_an_mpi_launcher_is_a_pod_too() -> None:
    tight = [quota({"pods": "2"})]
    assert find_quota_excess(spec(), tight) == ([], [])
    assert find_quota_excess(spec(runner="MPIJob"), tight)[0] == ["quota q allows 2 pods, and weak-8-2x4 needs 3"]


@pytest.mark.parametrize(
    ("terms", "usable"),
    [
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}], ["a"]),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}], ["b", "c"]),
        ([{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}], ["a", "b"]),
        ([{"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}], ["c"]),
        ([{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r2"]}]},
          {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}], ["b", "c"]),
        ([{"matchExpressions": [{"key": "rack", "operator": "Exists"}],
           "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}], ["b"]),
    ],
)  # fmt: skip
def test_the_node_affinity_of_a_template(terms: list[dict[str, Any]], usable: list[str]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    asked = spec(pod={"template": {"spec": {"affinity": {"nodeAffinity": required}}}})
    nodes = [node("a", labels={"rack": "r1"}), node("b", labels={"rack": "r2"}), node("c")]
    assert [each.name for each in usable_nodes(nodes, [], asked)] == usable
