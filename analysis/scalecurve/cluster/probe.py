"""``scalecurve probe``: groups of nodes of a cluster as experiments, and what they show about nodes and links."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalecurve.cluster import capacity
from scalecurve.cluster.experiments import begun
from scalecurve.cluster.slow_nodes import GroupRun, Nodes, NodeSearch
from scalecurve.render.table import Column, Table
from scalecurve_api.planning.plan import expand_points
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.validation.rules import check
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.errors import ApiStatusError, ClusterError
from scalecurve_kube.resources import EXPERIMENTS, NODES, PODS, Object

_ENDED = ("Succeeded", "Failed", "Cancelled")
_TTL_S = 3600  # of what an interrupted probe leaves
_GPU = "nvidia.com/gpu"
ALL_REDUCE: dict[str, Any] = {
    "scaling": {"modes": ["weak"], "workers": [1]},
    "workload": {
        "program": "allreduce",
        "sizes": {"minBytes": 1 << 20, "maxBytes": 1 << 28, "factor": 16, "iterations": 20, "warmup": 5},
    },
}
"""What runs in each group unless an experiment is named: the all-reduce alone."""


class ProbeError(Exception):
    """There is nothing to compare; the message says what to do."""


@dataclass(frozen=True)
class ProbedNodes:
    """Nodes that take part, and how many workers each of them gets."""

    nodes: Nodes
    workers: int
    gpus: bool


def candidates(
    cluster: BlockingCluster, spec: ExperimentSpec, names: Sequence[str], workers: int | None
) -> ProbedNodes:
    """The ready nodes that are free for the experiment's pods, in the order of their names.

    Args:
        cluster: the cluster to ask.
        spec: the experiment whose pods the nodes must have room for.
        names: nodes to choose from; all if empty.
        workers: workers per node; by default one for each GPU, and one without GPUs.

    Raises:
        ProbeError: fewer than two nodes, or one of ``names`` that does not exist or is not free.
        ClusterError: the cluster does not answer, or nodes may not be listed.
    """
    try:
        busy = cluster.list(PODS, all_namespaces=True, fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except ApiStatusError:
        busy = []  # Then a node that is in use makes its group wait.
    every = capacity.usable_nodes(cluster.list(NODES, all_namespaces=True), busy, spec)
    chosen = [node for node in every if not names or node.name in names]
    if missing := sorted(set(names) - {node.name for node in chosen}):
        raise ProbeError(f"--node {', '.join(missing)}: not a ready node that the experiment's pods may run on")
    devices = [int(node.allocatable.get(_GPU, 0)) for node in chosen]
    per_node = workers or max(1, min((amount for amount in devices if amount), default=1))
    needs = {_GPU: per_node} if any(devices) else {}
    free = [node.name for node in chosen if all(node.free.get(what, 0) >= amount for what, amount in needs.items())]
    if taken := [name for name in names if name not in free]:
        raise ProbeError(f"--node {', '.join(taken)}: has no {per_node} free {_GPU}")
    if len(free) < 2:
        raise ProbeError(f"{len(free)} of {len(every)} ready nodes are free; a probe compares at least two")
    return ProbedNodes(tuple(sorted(free)), per_node, any(devices))


def experiment_on(
    spec: Object, name: str, namespace: str, nodes: Nodes, workers: int, repetitions: int, gpus: bool
) -> Object:
    """The experiment that runs ``spec``'s workload on exactly these nodes, as a manifest."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = dict(spec.get("pod") or {})
    template = dict(pod.get("template") or {})
    affinity = {**((template.get("spec") or {}).get("affinity") or {}), "nodeAffinity": required}
    pod["template"] = {**template, "spec": {**(template.get("spec") or {}), "affinity": affinity}}
    scaling = {key: value for key, value in spec["scaling"].items() if key not in ("baseline", "workers")}
    modes = scaling.get("modes") or ["strong"]
    mode = "weak" if "weak" in modes else modes[0]
    tree = {
        **{key: value for key, value in spec.items() if key not in ("matrix", "exclude", "cost", "report")},
        "scaling": {**scaling, "modes": [mode], "workers": [len(nodes) * workers]},
        "placement": {"layouts": [f"{len(nodes)}x{workers}"], "nesting": "off"},
        "measure": {**(spec.get("measure") or {}), "repetitions": repetitions},
        "failurePolicy": {"maxFailedTrials": 0},
        "pod": pod,
        "ttlSecondsAfterFinished": _TTL_S,
    }
    if gpus and not (spec.get("resources") or {}).get("limits"):
        tree["resources"] = {**(spec.get("resources") or {}), "limits": {_GPU: 1}}
    body = EXPERIMENTS.body(name=name, namespace=namespace)
    return {**body, "spec": tree}


@dataclass
class GroupRuns:
    """Runs groups of nodes one after the other, each as an experiment of its own that is deleted afterwards."""

    cluster: BlockingCluster
    spec: Object
    prefix: str
    workers: int
    repetitions: int
    gpus: bool
    say: Callable[[str], None]
    every_s: float = 1.0
    count: int = 0

    def run(self, nodes: Nodes) -> GroupRun:
        """Run the workload on these nodes.

        Raises:
            ProbeError: the workload cannot be run as one point on so many nodes.
            ClusterError: the cluster refuses the experiment, or stops answering.
        """
        self.count += 1
        name = f"{self.prefix}-{self.count}"
        tree = experiment_on(self.spec, name, self.cluster.namespace, nodes, self.workers, self.repetitions, self.gpus)
        experiment = ScalingExperiment.model_validate(tree)
        if problems := check(experiment):
            raise ProbeError(f"on {', '.join(nodes)}: {problems[0]}")
        if len(list(expand_points(experiment.spec))) != 1:
            raise ProbeError("spec.scaling.batch.ladder: a probe runs one point; set batch.perWorker in its place")
        self.cluster.request("POST", EXPERIMENTS.path(self.cluster.namespace), tree)
        try:
            status = self._await_end(name)
            trials = list(begun(self.cluster, name))
            rates = tuple(rate for trial in trials if (rate := _rate(trial.status)) is not None)
            bad = [trial.status for trial in trials if trial.status.get("phase") in ("Failed", "Invalid")]
            message = str((bad[0] if bad else status).get("message") or "")
        finally:
            self.cluster.request("DELETE", EXPERIMENTS.path(self.cluster.namespace, name))
        result = GroupRun(nodes, rates, "" if rates else message or "no trial was valid")
        shown = f"{statistics.fmean(rates):.4g}" if rates else result.problem
        self.say(f"run {self.count}: {', '.join(nodes)}: {shown}")
        return result

    def _await_end(self, name: str) -> Object:
        said = ""
        while True:
            document = self.cluster.get(EXPERIMENTS, name)
            if document is None:
                raise ClusterError(f"{name} was deleted while it ran")
            status = document.get("status") or {}
            if status.get("phase") in _ENDED:
                return dict(status)
            stalled = [each for each in status.get("conditions") or ()
                       if each["type"] == "Stalled" and each["status"] == "True"]  # fmt: skip
            if stalled and stalled[0].get("message") != said:
                said = str(stalled[0].get("message"))
                self.say(f"run {self.count} waits: {said}")
            time.sleep(self.every_s)


def _rate(status: Mapping[str, Any]) -> float | None:
    """Bus bandwidth of an all-reduce in GB/s, samples per second of a training; None unless the trial is valid."""
    summary = status.get("summary") or {}
    if status.get("phase") != TrialPhase.succeeded.value:
        return None
    rate = summary.get("peakBusbw") or summary.get("throughput")
    return float(rate) if rate and math.isfinite(rate) and rate > 0 else None


def leave_out(nodes: Sequence[str]) -> Object:
    """An overlay that keeps an experiment off these nodes."""
    if not nodes:
        return {"spec": {}}
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    return {"spec": {"pod": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}}


def culprits(search: NodeSearch) -> list[str]:
    """Nodes to exclude: slow ones, and one end of each slow link."""
    ends = [b for a, b in search.slow_links if not {a, b} & set(search.slow_nodes)]
    return list(dict.fromkeys([*search.slow_nodes, *ends]))


def tables(search: NodeSearch, unit: str) -> list[Table]:
    """What is slow, and every run with its rate relative to a fast group."""
    columns = (Column("what", "What"), Column("where", "Where"), Column("do", "Action"))
    return [
        Table("probe", "Slow nodes and links", columns, tuple(_verdicts(search))),
        Table(
            "runs",
            f"Runs ({unit})",
            (
                Column("run", "Run", "count"),
                Column("nodes", "Nodes"),
                Column("rate", "Rate", "number"),
                Column("ratio", "Relative", "number"),
                Column("low", "95 % from", "number"),
                Column("high", "to", "number"),
                Column("slow", "Slow", "flag"),
            ),
            tuple(_runs(search)),
        ),
    ]


def _verdicts(search: NodeSearch) -> Iterator[tuple[Any, ...]]:
    for node in search.slow_nodes:
        yield "node", node, f"kubectl describe node {node}; exclude it"
    for a, b in search.slow_links:
        yield "link", f"{a} - {b}", f"check the cables and ports between them; exclude {a} or {b}"
    for group in search.unresolved:
        yield "group", ", ".join(group), "slow only as a group; probe it again"


def _runs(search: NodeSearch) -> Iterator[tuple[Any, ...]]:
    for number, run in enumerate(search.runs, 1):
        relative = search.relative(run)
        rate = math.exp(run.log_rate) if run.rates else None
        ratio = relative.ratio if run.rates else None
        yield number, ", ".join(run.nodes), rate, ratio, relative.low, relative.high, search.is_slow(run)
