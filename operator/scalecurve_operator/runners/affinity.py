"""Where the pods of an attempt may stand: spread over nodes as the layout asks, and nested within a series.

What the scheduler is told is a request; what really happened is read back from the pods and judged.
"""

from __future__ import annotations

from typing import Any

from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.pod_options import Nesting
from scalecurve_operator.runners.request import Request

HOSTNAME = "kubernetes.io/hostname"
_NEVER_ENOUGH = 2**31 - 1
_MOST = 100


def worker_affinity(request: Request) -> dict[str, Any]:
    """``affinity`` and ``topologySpreadConstraints`` of a pod that carries workers, where they are needed."""
    affinity: dict[str, Any] = {}
    found: dict[str, Any] = {}
    nodes, each = request.trial.point.nodes, request.spec.placement.pods_per_node
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": _siblings(request)}}
    if each == 1 and nodes > 1:
        # Guaranteed: as many nodes as pods.
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif each > 1 and nodes == 1:
        # Guaranteed: one node. The first pod may pick one that has no room for the rest: they are Unschedulable then.
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif each > 1:
        # Guaranteed: at most podsPerNode on a node. With more domains asked for than there ever are, the scheduler
        # takes the least loaded node to hold none, and maxSkew is the limit itself. That the pods also fill each
        # node up to it is preferred only: whether they stand on exactly so many nodes, the read-back tells.
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": each,
                "minDomains": _NEVER_ENOUGH,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": term["labelSelector"],
            }
        ]
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _MOST, "podAffinityTerm": term}]
        }
    if nesting := _nesting(request):
        affinity["nodeAffinity"] = nesting
    if affinity:
        found["affinity"] = affinity
    return found


def _siblings(request: Request) -> dict[str, str]:
    return {
        objects.TRIAL_LABEL: request.trial_object,
        objects.ATTEMPT_LABEL: str(request.attempt),
        objects.ROLE_LABEL: "worker",
    }


def _nesting(request: Request) -> dict[str, Any]:
    """Keep to nodes that the series has used, and to the first of them if that can be: so the sets nest."""
    nesting, known = request.spec.placement.nesting, list(request.nodes)
    needed = request.trial.point.nodes
    if nesting is Nesting.off or not known:
        return {}
    found: dict[str, Any] = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _MOST, "preference": _on(known[:needed])}]
    }
    if nesting is Nesting.require and needed <= len(known):
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [_on(known)]}
    return found


def _on(nodes: list[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": nodes}]}
