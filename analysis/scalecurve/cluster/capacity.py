"""Whether a cluster has what an experiment needs: free nodes and quotas. Pure, from API objects."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from scalecurve_api.planning.plan import expand_points
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.job_kinds import DEFAULT_RUNNER
from scalecurve_api.spec.pod_options import Toleration
from scalecurve_api.spec.quantity import value
from scalecurve_api.spec.trial import Point

Amounts = Mapping[str, Decimal]
_REPELS = ("NoSchedule", "NoExecute")
_NOT_DEVICES = ("hugepages-", "attachable-volumes-", "kubernetes.io/")


@dataclass(frozen=True)
class NodeCapacity:
    """A node that can run the experiment's pods: its allocatable and its free resources."""

    name: str
    allocatable: Amounts
    free: Amounts


@dataclass(frozen=True)
class Fit:
    """How many nodes could ever carry a node's share of a layout, and how many can now."""

    layout: str
    nodes: int
    needs: Amounts
    ever: int
    now: int


def usable_nodes(
    nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], spec: ExperimentSpec | None
) -> list[NodeCapacity]:
    """Ready, schedulable nodes that the experiment's node selector and tolerations allow."""
    taken: defaultdict[str, dict[str, Decimal]] = defaultdict(dict)
    for pod in pods:
        on = pod.get("spec", {}).get("nodeName")
        if on and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            _add(taken[on], requests(pod["spec"]))
    usable = []
    for node in nodes:
        if not _is_usable(node, spec):
            continue
        offers = _amounts((node.get("status") or {}).get("allocatable"))
        name = node["metadata"]["name"]
        free = {what: amount - taken[name].get(what, Decimal(0)) for what, amount in offers.items()}
        usable.append(NodeCapacity(name, offers, free))
    return usable


def requests(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """A pod's effective requests: the sum over its containers, or an init container if that is larger."""
    total: dict[str, Decimal] = {}
    for container in pod.get("containers") or []:
        _add(total, _container_requests(container))
    for container in pod.get("initContainers") or []:
        for what, amount in _container_requests(container).items():
            total[what] = max(total.get(what, Decimal(0)), amount)
    return {**total, "pods": Decimal(1)}


def fits(spec: ExperimentSpec, nodes: Sequence[NodeCapacity]) -> list[Fit]:
    """Each layout of the experiment, in the order of the plan."""
    shapes = dict.fromkeys((point.nodes, point.workers_per_node) for point in expand_points(spec))
    out = []
    for count, share in shapes:
        needs = {what: value(limit) * share for what, limit in spec.resources.limits.items()}
        needs["pods"] = Decimal(min(share, spec.placement.pods_per_node))
        ever = sum(_covers(node.allocatable, needs) for node in nodes)
        now = sum(_covers(node.free, needs) for node in nodes)
        out.append(Fit(f"{count}x{share}", count, needs, ever, now))
    return out


def devices(nodes: Iterable[NodeCapacity], requested: Iterable[str] = ()) -> dict[str, Counter[int]]:
    """Extended resources -> how many of them a node offers -> how many nodes do."""
    offered: dict[str, Counter[int]] = {}
    for node in nodes:
        for what, amount in node.allocatable.items():
            if what in requested or ("/" in what and not what.startswith(_NOT_DEVICES)):
                offered.setdefault(what, Counter())[int(amount)] += 1
    return offered


def largest(spec: ExperimentSpec) -> Point | None:
    """The point with the largest requirements."""
    return max(expand_points(spec), key=lambda point: (point.workers, point.nodes), default=None)


def find_quota_excess(spec: ExperimentSpec, quotas: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Where the largest point exceeds a quota, and where it exceeds what is left of one; a sentence each."""
    never: list[str] = []
    now: list[str] = []
    if (point := largest(spec)) is None:
        return never, now
    needs = _quota_needs(spec, point)
    for quota in quotas:
        status = quota.get("status") or {}
        hard, used = _amounts(status.get("hard") or quota.get("spec", {}).get("hard")), _amounts(status.get("used"))
        for what, allowed in sorted(hard.items()):
            where = f"quota {quota['metadata']['name']}"
            needed = needs.get(what)
            if needed is None:
                name = what.removeprefix("requests.").removeprefix("limits.")
                if name in ("cpu", "memory"):
                    never.append(
                        f"{where} limits {what}, so every pod must declare it: set spec.resources.limits.{name}"
                    )
            elif needed > allowed:
                never.append(f"{where} allows {allowed:f} {what}, and {point.name} needs {needed:f}")
            elif needed > allowed - used.get(what, Decimal(0)):
                left = allowed - used.get(what, Decimal(0))
                now.append(f"{where} has {left:f} of {allowed:f} {what} left, and {point.name} needs {needed:f}")
    return never, now


def _quota_needs(spec: ExperimentSpec, point: Point) -> dict[str, Decimal]:
    """What a quota counts of one point: requests equal limits."""
    needs: dict[str, Decimal] = {}
    for what, limit in spec.resources.limits.items():
        amount = value(limit) * point.workers
        needs[f"requests.{what}"] = needs[f"limits.{what}"] = amount
        if what in ("cpu", "memory"):
            needs[what] = amount
    kind = (spec.runner or DEFAULT_RUNNER).job_kind
    launcher = kind.launcher_pods or int(kind.uses_mpirun and spec.workload.needs_mpirun is True)
    pods = point.nodes * min(point.workers_per_node, spec.placement.pods_per_node) + launcher
    needs["pods"] = needs["count/pods"] = Decimal(pods)
    return needs


def _is_usable(node: Mapping[str, Any], spec: ExperimentSpec | None) -> bool:
    ready = any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in (node.get("status") or {}).get("conditions") or []
    )
    if not ready or (node.get("spec") or {}).get("unschedulable"):
        return False
    selector = spec.pod.node_selector if spec else {}
    has = node["metadata"].get("labels") or {}
    if any(has.get(label) != wanted for label, wanted in selector.items()):
        return False
    if spec and not _has_required_affinity(node, spec.pod.template):
        return False
    tolerations = spec.pod.tolerations if spec else []
    taints = (node.get("spec") or {}).get("taints") or []
    repelling = [taint for taint in taints if taint.get("effect") in _REPELS]
    return all(any(_tolerates(each, taint) for each in tolerations) for taint in repelling)


def _has_required_affinity(node: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Whether the required node affinity of a pod template allows the node: one of its terms, all parts of it."""
    affinity = ((template.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms")
    if not terms:
        return True
    labels, fields = node["metadata"].get("labels") or {}, {"metadata.name": node["metadata"]["name"]}
    return any(
        all(_holds(part, labels) for part in term.get("matchExpressions") or ())
        and all(_holds(part, fields) for part in term.get("matchFields") or ())
        for term in terms
    )


def _holds(part: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """A requirement of a node selector; one that compares numbers is left to the scheduler."""
    actual, listed = values.get(part["key"]), part.get("values") or ()
    match part.get("operator"):
        case "In":
            return actual in listed
        case "NotIn":
            return actual not in listed
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
    return True


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect not in (None, taint.get("effect")):
        return False
    if toleration.key is None:
        return toleration.operator == "Exists"
    if toleration.key != taint.get("key"):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == (taint.get("value") or "")


def _covers(offered: Amounts, needs: Amounts) -> bool:
    return all(offered.get(what, Decimal(0)) >= amount for what, amount in needs.items())


def _container_requests(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _add(total: dict[str, Decimal], more: Amounts) -> None:
    for what, amount in more.items():
        total[what] = total.get(what, Decimal(0)) + amount


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, Decimal]:
    amounts = {}
    for what, amount in (quantities or {}).items():
        try:
            amounts[what] = value(amount)
        except ValueError:
            continue
    return amounts
