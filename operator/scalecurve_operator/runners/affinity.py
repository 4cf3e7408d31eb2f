"""Where the pods of an attempt may run: spread over nodes as the layout requires, and nested within a series.

This is only a request to the scheduler; what really happened is read back from the pods and judged.
"""

from collections.abc import Mapping
from typing import Any

from scalecurve_api.planning.rotation import rotated
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.pod_options import MAX_NODES, Nesting
from scalecurve_operator.runners.job_request import JobRequest

HOSTNAME = "kubernetes.io/hostname"
_BY_TOPOLOGY = "kueue.x-k8s.io/podset-"
"""Kueue's annotations of a pod for topology-aware scheduling begin so."""
_SLICES = {f"{_BY_TOPOLOGY}slice-required-topology", f"{_BY_TOPOLOGY}slice-required-topology-constraints"}
_MORE_THAN_EXIST = 2**31 - 1
_MAX_WEIGHT = 100


def worker_affinity(request: JobRequest) -> dict[str, Any]:
    """``affinity`` and ``topologySpreadConstraints`` of a pod that carries workers, where they are needed."""
    affinity: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    nodes, pods_per_node = request.trial.point.nodes, request.spec.placement.pods_per_node
    attempt = {objects.TRIAL_LABEL: request.trial_object, objects.ATTEMPT_LABEL: str(request.attempt)}
    siblings = {"matchLabels": {**attempt, objects.ROLE_LABEL: "worker"}}
    term: dict[str, Any] = {"topologyKey": HOSTNAME, "labelSelector": siblings}
    if is_placed_by_queue(request):
        pass  # Kueue picks the node of each pod, and knows nothing of affinity between pods.
    elif pods_per_node == 1 and nodes > 1:
        # Guaranteed: as many nodes as pods.
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif pods_per_node > 1 and nodes == 1:
        # Guaranteed: one node. The first pod may pick one that has no room for the rest: they are Unschedulable then.
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif pods_per_node > 1:
        # Guaranteed: at most podsPerNode on a node. With more domains requested than there ever are, the scheduler
        # assumes that the least loaded node has none, so maxSkew is the limit itself. That the pods also fill each
        # node up to it is only preferred: whether they run on exactly so many nodes, the read-back tells.
        spread: dict[str, Any] = {"maxSkew": pods_per_node, "minDomains": _MORE_THAN_EXIST, "topologyKey": HOSTNAME}
        spread |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": siblings}
        fields["topologySpreadConstraints"] = [spread]
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _MAX_WEIGHT, "podAffinityTerm": term}]
        }
    if nesting := _nest_nodes(request):
        affinity["nodeAffinity"] = nesting
    if affinity:
        fields["affinity"] = affinity
    return fields


def is_placed_by_queue(request: JobRequest) -> bool:
    """Whether Kueue assigns nodes to pods by topology, as the experiment's annotations request."""
    return request.spec.queue is not None and any(name.startswith(_BY_TOPOLOGY) for name in _annotations(request))


def slice_annotations(request: JobRequest) -> dict[str, str]:
    """That the pods of one node stay together, in Kueue's words; empty where the experiment words it itself."""
    pods_per_node = request.spec.placement.pods_per_node
    if pods_per_node == 1 or not is_placed_by_queue(request) or _SLICES & set(_annotations(request)):
        return {}
    return {f"{_BY_TOPOLOGY}slice-required-topology": HOSTNAME, f"{_BY_TOPOLOGY}slice-size": str(pods_per_node)}


def _annotations(request: JobRequest) -> dict[str, str]:
    pod = request.spec.pod
    return {**pod.annotations, **((pod.template.get("metadata") or {}).get("annotations") or {})}


def restore_terms(ours: Mapping[str, Any], affinity: dict[str, Any]) -> dict[str, Any]:
    """A patched ``affinity`` whose lists, which a patch replaces, have our terms again; what it removed stays removed.

    Terms of a required nodeAffinity are alternatives, so ours join each of them.
    """
    merged = {kind: dict(entry) if isinstance(entry, Mapping) else entry for kind, entry in affinity.items()}
    for kind, lists in ours.items():
        for name, terms in lists.items():
            if not (merged.get(kind) or {}).get(name) or merged[kind][name] == terms:
                continue
            if isinstance(terms, Mapping):
                theirs = merged[kind][name].get("nodeSelectorTerms") or [{}]
                both = [_join_terms(term, own) for term in theirs for own in terms["nodeSelectorTerms"]]
                merged[kind][name] = {"nodeSelectorTerms": both}
            else:
                merged[kind][name] = [*merged[kind][name], *terms]
    return merged


def _join_terms(term: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """A term of node affinity that holds where both do."""
    return {**term, "matchFields": [*(term.get("matchFields") or ()), *further["matchFields"]]}


def _nest_nodes(request: JobRequest) -> dict[str, Any]:
    """Keep to nodes that the series has used in this session, in an order that moves on with each repetition.

    So the sets nest, and no baseline runs on one node alone. A further session prefers nodes that none before has used.
    """
    trial, nesting, known = request.trial, request.spec.placement.nesting, request.nodes
    order = [known[at] for at in rotated(len(known), trial.measure.seed, trial.repetition)]
    preferred = []
    if nesting is not Nesting.off:
        nested = order[: min(trial.point.nodes, MAX_NODES)]
        preferred += [{"weight": _MAX_WEIGHT, "preference": _fields("In", [node])} for node in nested]
    if other := [node for node in request.earlier_nodes if node not in known][:MAX_NODES]:
        preferred.append({"weight": _MAX_WEIGHT // 2, "preference": _fields("NotIn", other)})
    terms: dict[str, Any] = {}
    if preferred:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    if nesting is Nesting.require and trial.point.nodes <= len(order) and order:
        allowed = [_fields("In", [node]) for node in known]  # any of them
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": allowed}
    return terms


def _fields(operator: str, nodes: list[str]) -> dict[str, Any]:
    """A term by the nodes' names, which a label need not repeat: each requirement takes one, and all must hold."""
    fields = [{"key": "metadata.name", "operator": operator, "values": [node]} for node in nodes]
    return {"matchFields": fields}
