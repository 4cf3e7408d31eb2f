"""Reading one pod's object: how its containers ended, what they wait for, its index and role. Pure."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import ROLE_LABEL

Pod = Mapping[str, Any]
P = TypeVar("P", bound=Mapping[str, Any])

_INDEX_LABELS = frozenset(label for runner in Runner for label in runner.job_kind.index_labels)
_LEADERS = frozenset(filter(None, (runner.job_kind.leader_label for runner in Runner)))
_CHILD_JOBS = frozenset(suffix for runner in Runner for suffix in runner.job_kind.child_jobs)


def status_of(pod: Pod) -> Mapping[str, Any]:
    """The pod's status; empty before it has one."""
    return pod.get("status") or {}


def phase_of(pod: Pod) -> str | None:
    """Pending, Running, Succeeded or Failed."""
    return status_of(pod).get("phase")


def labels_of(pod: Pod) -> Mapping[str, str]:
    """The pod's labels."""
    return pod["metadata"].get("labels") or {}


def name_of(pod: Pod) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def node_of(pod: Pod) -> str | None:
    """The node that the pod was assigned to."""
    return (pod.get("spec") or {}).get("nodeName")


def where(pod: Pod) -> str:
    """The pod and its node, for a message."""
    node = node_of(pod)
    return f"pod {name_of(pod)} on {node}" if node else f"pod {name_of(pod)}"


def more(pods: Sequence[object]) -> str:
    """How many there are behind the first, for a message."""
    return f" and {len(pods) - 1} more" if len(pods) > 1 else ""


def position_of(pod: Pod) -> tuple[bool, int]:
    """Sorts pods as their workers are numbered: a leader (PyTorchJob's master) comes before worker 0."""
    labels = labels_of(pod)
    index = next((labels[label] for label in _INDEX_LABELS if label in labels), "0")
    leads = any(labels.get(label, "").lower() == value for label, value in _LEADERS)
    return not leads, int(index) if index.isdigit() else 0


def role_of(pod: Pod) -> str:
    """What the pod does in its trial."""
    return labels_of(pod).get(ROLE_LABEL, "worker")


def pods_of_job(pods: Sequence[P], job: str, uid: str | None, *, newest: bool = True) -> list[P]:
    """Those that the job's controller made, the newest of each position; labels alone anyone may give to a pod.

    An MPIJob's launcher and all pods of a JobSet belong to Jobs that it makes. Without the ``uid`` of a job that never
    was, labels decide.
    """
    children = {f"{job}{suffix}" for suffix in _CHILD_JOBS}

    def made(pod: Pod) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        return any(
            owner.get("uid") == uid or (owner.get("kind") == "Job" and owner.get("name") in children)
            for owner in owners
        )

    of_job = [pod for pod in pods if uid is None or made(pod)]
    return newest_pods(of_job) if newest else of_job


def newest_pods(pods: Sequence[P]) -> list[P]:
    """The newest pod of each position: a job that its queue released again still has old ones that are terminating.

    On a node that is cut off those stay for long, under other names or under those of their successors.
    """
    newest: dict[tuple[object, ...], P] = {}
    for pod in pods:
        other = newest.get(key := (role_of(pod), position_of(pod)))
        if other is None or _age(pod) > _age(other):
            newest[key] = pod
    kept = {id(pod) for pod in newest.values()}
    return [pod for pod in pods if id(pod) in kept]


def _age(pod: Pod) -> tuple[str, bool]:
    metadata = pod["metadata"]
    return str(metadata.get("creationTimestamp") or ""), "deletionTimestamp" not in metadata


def terminations(pod: Pod, field: str = "containerStatuses") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and termination of every container that ended."""
    for container in status_of(pod).get(field) or ():
        if termination := (container.get("state") or {}).get("terminated"):
            yield container["name"], termination


def nonzero_terminations(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Those with an exit code other than 0."""
    return ((name, termination) for name, termination in terminations(pod) if termination.get("exitCode"))


def ended_at(pod: Pod) -> str:
    """RFC 3339, so it sorts as text; a pod without terminated containers comes last."""
    return min((str(end.get("finishedAt") or "~") for _, end in nonzero_terminations(pod)), default="~")


def find_waiting_containers(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Name, reason and message of every container that cannot start, init containers first."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status_of(pod).get(field) or ():
            if waiting := (container.get("state") or {}).get("waiting"):
                yield container["name"], waiting.get("reason", ""), waiting.get("message", "")


def condition_of(pod: Pod, kind: str) -> Mapping[str, Any] | None:
    """The pod's condition of this type."""
    return next((entry for entry in status_of(pod).get("conditions") or () if entry.get("type") == kind), None)


def disruption_of(pod: Pod) -> Mapping[str, Any] | None:
    """The condition of a pod that the cluster takes away: preempted, drained, its node gone."""
    condition = condition_of(pod, "DisruptionTarget")
    return condition if condition is not None and condition.get("status") == "True" else None


def signal_of(termination: Mapping[str, Any]) -> signal.Signals | None:
    """The signal that ended a container: 128 + n, as the runtime reports it."""
    number = termination.get("signal") or (termination.get("exitCode") or 0) - 128
    try:
        return signal.Signals(number)
    except ValueError:
        return None
