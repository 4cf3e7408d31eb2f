"""What the job kinds of kubeflow.org have in common: replicas by name, a run policy, conditions.

None of their conditions says why a run failed; that is read from the pods, which cleanPodPolicy None leaves there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scalecurve_api import lifecycle
from scalecurve_api.spec.trial import FailedReason
from scalecurve_operator.runners.job_state import Reading, conditions, ended
from scalecurve_operator.runners.kueue import queue_labels
from scalecurve_operator.runners.request import Request
from scalecurve_operator.runners.runner_kind import Manifest

GROUP = "kubeflow.org"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"


def job(kind: str, version: str, request: Request, spec: Mapping[str, Any], **run_policy: Any) -> Manifest:
    """A job whose pods stay when it ends, so that what they left can be collected; whoever collects deletes it.

    cleanPodPolicy Running was seen to delete failed pods too, and workers that end just after their master.

    No backoffLimit here: restartPolicy Never keeps a pod from starting twice, and training-operator before 1.9.4
    deletes all pods of a job that reaches its backoffLimit, whatever cleanPodPolicy says (kubeflow/trainer#3419).
    """
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {
            "name": request.job,
            "namespace": request.namespace,
            "labels": {**request.labels, **queue_labels(request)},
        },
        "spec": {
            "runPolicy": {
                "cleanPodPolicy": "None",
                "activeDeadlineSeconds": request.backstop_seconds,
                **run_policy,
                **({"suspend": True} if request.spec.queue else {}),
            },
            **spec,
        },
    }


def replicas(count: int, template: Mapping[str, Any]) -> dict[str, Any]:
    """Pods of one role, each started once."""
    return {"replicas": count, "restartPolicy": "Never", "template": dict(template)}


def read(job: Mapping[str, Any], specs: str) -> Reading:
    """State by conditions and counts; ``specs`` names the field with the replicas.

    The operators' own condition Running comes with the first pod, and after a short run may never come.
    """
    return replace(_read(job, specs), resumed_at=_resumed_at(job))


def _read(job: Mapping[str, Any], specs: str) -> Reading:
    holds, spec, status = conditions(job), job.get("spec") or {}, job.get("status") or {}
    # A job of which one replica failed and another succeeded can hold both.
    if "Failed" in holds:
        return _failed(ended(job, holds["Failed"], succeeded=False))
    if "Succeeded" in holds:
        return ended(job, holds["Succeeded"], succeeded=True)
    if (spec.get("runPolicy") or {}).get("suspend"):
        return Reading(lifecycle.Job.queued, message="suspended: waits to be admitted")
    counted = (status.get("replicaStatuses") or {}).items()
    there = {name: (each or {}).get("active", 0) + (each or {}).get("succeeded", 0) for name, each in counted}
    wanted = {name: each.get("replicas", 1) for name, each in (spec.get(specs) or {}).items()}
    running = bool(wanted) and all(there.get(name, 0) >= count for name, count in wanted.items())
    return Reading(lifecycle.Job.running if running else lifecycle.Job.starting)


def replica(pods: Sequence[Mapping[str, Any]], *roles: str) -> Mapping[str, Any] | None:
    """Replica 0 of the first of ``roles`` that is there."""
    for role in roles:
        for pod in pods:
            labels = pod["metadata"].get("labels") or {}
            if labels.get(REPLICA_TYPE, "").lower() == role and labels.get(REPLICA_INDEX, "0") == "0":
                return pod
    return None


def _resumed_at(job: Mapping[str, Any]) -> str | None:
    for each in (job.get("status") or {}).get("conditions") or ():
        if each["type"] == "Suspended" and each.get("status") == "False":
            return str(each["lastTransitionTime"])
    return None


def _failed(reading: Reading) -> Reading:
    reason = reading.reason
    # training-operator says a deadline in words only, mpi-operator an eviction by a reason of its own.
    if "active longer than specified deadline" in reading.message:
        reason = FailedReason.deadline_exceeded
    elif reading.message.startswith("MPIJobEvicted"):
        reason = FailedReason.evicted
    return replace(reading, reason=reason)
