"""Experiments through a real Kueue: admitted, kept waiting, refused, deactivated, preempted and admitted again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.applied import Applied, manifest
from tests.cluster.operator_process import OperatorProcess
from tests.waiting import eventually
from tools.devcluster.operators import PLATFORM
from tools.devcluster.tier import Tier, lacking

RUNNERS = [Runner.job, Runner.job_set, Runner.train_job]
GROUP = "kueue.x-k8s.io/v1beta2"
PATH = f"/apis/{GROUP}"
MERGE = "application/merge-patch+json"
DEADLINE_S = 40
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def queued() -> Iterator[Tier]:
    """A tier with JobSet, Trainer and Kueue, whose namespaces have a LocalQueue `team` each."""
    if why := lacking(PLATFORM):
        pytest.skip(why)
    with Tier(operators=PLATFORM) as running:
        running.add_nodes(4)
        _create(running, "resourceflavors", "ResourceFlavor", "default", {})
        _create(running, "workloadpriorityclasses", "WorkloadPriorityClass", "high", None, value=1000)
        yield running


@pytest.fixture
def team(queued: Tier) -> Iterator[str]:
    """A namespace with an operator, and a LocalQueue `team` with a quota of two GPUs."""
    name = queued.namespace(f"queued-{next(_NUMBERS)}")
    _queue(queued, name, "team", "default", gpus=2)
    with OperatorProcess(queued, name, settings={"LEASE_SECONDS": "15"}):
        yield name
    queued.rest.raw("DELETE", f"/api/v1/namespaces/{name}")


def _queue(tier: Tier, namespace: str, name: str, flavor: str, gpus: int) -> None:
    """A LocalQueue in a namespace, and a ClusterQueue of one flavor behind it."""
    quotas = [{"name": resource, "nominalQuota": amount} for resource, amount in
              (("cpu", "500"), ("memory", "2000Gi"), ("nvidia.com/gpu", str(gpus)))]  # fmt: skip
    flavors = [{"name": flavor, "resources": quotas}]
    group = {"coveredResources": [quota["name"] for quota in quotas], "flavors": flavors}
    spec = {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}, "resourceGroups": [group]}
    cluster_queue = f"{namespace}-{name}"
    _create(tier, "clusterqueues", "ClusterQueue", cluster_queue, spec)
    _create(tier, f"namespaces/{namespace}/localqueues", "LocalQueue", name, {"clusterQueue": cluster_queue})
    eventually(lambda: _is_active(tier, cluster_queue), "an active ClusterQueue")


@pytest.fixture(scope="module")
def racks(queued: Tier) -> Iterator[Tier]:
    """Two racks of two nodes of two GPUs, as a flavor with a topology."""
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    _create(queued, "topologies", "Topology", "racks", {"levels": levels})
    flavor = {"nodeLabels": {"racked": "yes"}, "topologyName": "racks"}
    _create(queued, "resourceflavors", "ResourceFlavor", "racked", flavor)
    names = []
    for rack in ("r1", "r2"):
        names += queued.add_nodes(2, gpus=2, prefix=f"{rack}-node", labels={"racked": "yes", "rack": rack})
    yield queued
    queued.remove_nodes(names)


def _create(tier: Tier, path: str, kind: str, name: str, spec: Any, **more: Any) -> None:
    body = {
        "apiVersion": GROUP,
        "kind": kind,
        "metadata": {"name": name},
        **({"spec": spec} if spec is not None else {}),
    }
    tier.rest.create(f"{PATH}/{path}", body | more)


def _is_active(tier: Tier, queue: str) -> bool:
    conditions = tier.rest.call("GET", f"{PATH}/clusterqueues/{queue}").get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


def _urgent(tier: Tier, namespace: str) -> str:
    """A job that takes the quota before all others; its path."""
    labels = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": "high"}
    gpus = {"nvidia.com/gpu": "2"}
    container = {"name": "c", "image": "x", "resources": {"limits": gpus, "requests": gpus}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    metadata = {"name": "urgent", "labels": labels}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    tier.rest.create(path, body | {"spec": {"suspend": True, "template": template}})
    return f"{path}/urgent"


def _phases(applied: Applied) -> list[str]:
    return [trial.get("phase", "") for trial in applied.trials().values()]


def _messages(applied: Applied) -> list[str]:
    return [trial.get("message", "") for trial in applied.trials().values()]


def _only(applied: Applied) -> dict[str, Any]:
    (trial,) = applied.trials().values()
    return trial


@pytest.mark.parametrize("runner", RUNNERS)
def test_admitted_and_succeeded(queued: Tier, team: str, runner: Runner) -> None:
    applied = Applied.apply(queued, manifest(team, runner=runner, queue="team"))
    assert applied.final()["phase"] == "Succeeded"
    timelines = [[event["phase"] for event in trial["timeline"]] for trial in applied.trials().values()]
    assert all("Queued" in phases for phases in timelines)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_trial_that_waits_reports_why(queued: Tier, team: str, runner: Runner) -> None:
    """And its deadline does not run meanwhile."""
    urgent = _urgent(queued, team)
    eventually(lambda: not queued.rest.call("GET", urgent)["spec"].get("suspend"), "the other job's admission")
    applied = Applied.apply(queued, manifest(team, runner=runner, workers=(2,), queue="team", deadlineSeconds=600))
    eventually(lambda: "insufficient" in ((applied.trials() and _only(applied).get("message")) or ""), "Kueue's reason")
    assert _phases(applied) == ["Queued"]
    queued.rest.call("DELETE", urgent, {"propagationPolicy": "Background"})
    assert applied.final()["phase"] == "Succeeded"


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"queue": "nowhere"}, "LocalQueue"), ({"queue": "team", "workers": (4,)}, "maximum capacity")],
)
def test_what_can_never_be_admitted_fails_at_once(
    queued: Tier, team: str, runner: Runner, spec: dict[str, Any], reason: str
) -> None:
    applied = Applied.apply(queued, manifest(team, runner=runner, **{"workers": (2,), **spec}))
    assert applied.final()["phase"] == "Failed"
    assert _only(applied)["reason"] == "NeverAdmissible"
    assert reason in _only(applied)["message"]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_deactivated_workload_fails_its_trial(queued: Tier, team: str, runner: Runner) -> None:
    applied = Applied.apply(queued, manifest(team, runner=runner, workers=(2,), seconds=600, play="hang", queue="team"))
    eventually(lambda: _phases(applied) == ["Running"], "a trial that runs")
    path = f"{PATH}/namespaces/{team}/workloads"
    (workload,) = queued.rest.call("GET", path)["items"]
    queued.rest.call("PATCH", f"{path}/{workload['metadata']['name']}", {"spec": {"active": False}}, MERGE)
    assert applied.final()["phase"] == "Failed"
    assert _only(applied)["reason"] == "NeverAdmissible"
    assert "deactivated" in _only(applied)["message"]


@pytest.mark.parametrize("runner", RUNNERS)
def test_preempted_and_admitted_again(queued: Tier, team: str, runner: Runner) -> None:
    """One attempt, and no deadline that its first start has long exceeded."""
    tree = manifest(team, runner=runner, workers=(2,), seconds=10, queue="team", deadlineSeconds=DEADLINE_S)
    applied = Applied.apply(queued, tree)
    eventually(lambda: _phases(applied) == ["Running"], "a trial that runs")
    urgent = _urgent(queued, team)
    eventually(lambda: _phases(applied) == ["Queued"], "its preemption")
    first = next(event["atNs"] for event in _only(applied)["timeline"] if event["phase"] == "Running")
    eventually(lambda: time.time() > first / 1e9 + DEADLINE_S, "the time at which its first start would be too old")
    queued.rest.call("DELETE", urgent, {"propagationPolicy": "Background"})
    assert applied.final()["phase"] == "Succeeded"
    assert _only(applied)["attempts"] == 1
    phases = [event["phase"] for event in _only(applied)["timeline"]]
    assert [phase for phase in phases if phase in ("Queued", "Running")][-4:] == ["Queued", "Running"] * 2


@pytest.mark.parametrize("runner", RUNNERS)
def test_preempted_twice(queued: Tier, team: str, runner: Runner) -> None:
    """Still one attempt, and no failure that its pods' ends could be taken for."""
    tree = manifest(team, runner=runner, workers=(2,), seconds=10, queue="team", deadlineSeconds=300)
    applied = Applied.apply(queued, tree)
    for _ in range(2):
        eventually(lambda: _phases(applied) == ["Running"], "a trial that runs")
        urgent = _urgent(queued, team)
        eventually(lambda: _phases(applied) == ["Queued"], "its preemption")
        queued.rest.call("DELETE", urgent, {"propagationPolicy": "Background"})
        eventually(lambda path=urgent: not queued.found(path), "the other job's end")
    assert applied.final()["phase"] == "Succeeded"
    assert _only(applied)["attempts"] == 1
    phases = [event["phase"] for event in _only(applied)["timeline"] if event["phase"] in ("Queued", "Running")]
    assert phases[-6:] == ["Queued", "Running"] * 3


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("pods_per_node", [1, 2])
def test_topology_aware_scheduling(racks: Tier, team: str, runner: Runner, pods_per_node: int) -> None:
    """Kueue puts the pods of a trial into one rack; with pods that fill a node, the layout is as requested."""
    _queue(racks, team, "racks", "racked", gpus=8)
    tree = manifest(
        team,
        runner=runner,
        workers=(4,),
        queue="racks",
        placement={"workersPerNode": 2, "podsPerNode": pods_per_node},
        pod={"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}},
    )
    applied = Applied.apply(racks, tree)
    assert applied.final()["phase"] == "Succeeded"
    nodes = _only(applied)["nodes"]
    assert len(nodes) == 2
    assert len({node.partition("-")[0] for node in nodes}) == 1, "of one rack"


def test_a_layout_that_kueue_does_not_keep_is_invalid(racks: Tier, team: str) -> None:
    """Two small pods fit one node, and Kueue packs: the trial is not held up, and its point is not a false one."""
    _queue(racks, team, "racks", "racked", gpus=8)
    annotations = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    tree = manifest(team, workers=(2,), queue="racks", pod={"annotations": annotations}, deadlineSeconds=200)
    applied = Applied.apply(racks, tree)
    assert applied.final()["phase"] == "Failed"
    assert (_only(applied)["phase"], _only(applied)["reason"]) == ("Invalid", "WrongPlacement")
