"""Where the pods of an attempt may run: spread over nodes as the layout requires, and nested within a series.

This is only a request to the scheduler; what really happened is read back from the pods and judged.
"""

from typing import Any

from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.pod_options import Nesting
from scalecurve_operator.runners.job_request import JobRequest

HOSTNAME = "kubernetes.io/hostname"
_MORE_THAN_EXIST = 2**31 - 1
_MAX_WEIGHT = 100


def worker_affinity(request: JobRequest) -> dict[str, Any]:
    """``affinity`` and ``topologySpreadConstraints`` of a pod that carries workers, where they are needed."""
    affinity: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    nodes, pods_per_node = request.trial.point.nodes, request.spec.placement.pods_per_node
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": _siblings(request)}}
    if pods_per_node == 1 and nodes > 1:
        # Guaranteed: as many nodes as pods.
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif pods_per_node > 1 and nodes == 1:
        # Guaranteed: one node. The first pod may pick one that has no room for the rest: they are Unschedulable then.
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif pods_per_node > 1:
        # Guaranteed: at most podsPerNode on a node. With more domains requested than there ever are, the scheduler
        # assumes that the least loaded node has none, so maxSkew is the limit itself. That the pods also fill each
        # node up to it is only preferred: whether they run on exactly so many nodes, the read-back tells.
        fields["topologySpreadConstraints"] = [
            {
                "maxSkew": pods_per_node,
                "minDomains": _MORE_THAN_EXIST,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": term["labelSelector"],
            }
        ]
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _MAX_WEIGHT, "podAffinityTerm": term}]
        }
    if nesting := _nesting(request):
        affinity["nodeAffinity"] = nesting
    if affinity:
        fields["affinity"] = affinity
    return fields


def _siblings(request: JobRequest) -> dict[str, str]:
    return {
        objects.TRIAL_LABEL: request.trial_object,
        objects.ATTEMPT_LABEL: str(request.attempt),
        objects.ROLE_LABEL: "worker",
    }


def _nesting(request: JobRequest) -> dict[str, Any]:
    """Keep to nodes that the series has used, preferably the first of them, so that the sets nest."""
    nesting, used = request.spec.placement.nesting, list(request.nodes)
    needed = request.trial.point.nodes
    if nesting is Nesting.off or not used:
        return {}
    terms: dict[str, Any] = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _MAX_WEIGHT, "preference": _on(used[:needed])}]
    }
    if nesting is Nesting.require and needed <= len(used):
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [_on(used)]}
    return terms


def _on(nodes: list[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": nodes}]}
