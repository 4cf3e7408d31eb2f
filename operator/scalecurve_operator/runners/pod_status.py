"""Reading one pod's object: its containers' ends and waits, its place, its labels. Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from scalecurve_api.spec import object_names as objects

Pod = Mapping[str, Any]
P = TypeVar("P", bound=Mapping[str, Any])

_INDEX = "batch.kubernetes.io/job-completion-index"
_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_REPLICA_TYPE = "training.kubeflow.org/replica-type"


def status_of(pod: Pod) -> Mapping[str, Any]:
    """What was reported of it; empty before that."""
    return pod.get("status") or {}


def labels_of(pod: Pod) -> Mapping[str, str]:
    """Its labels."""
    return pod["metadata"].get("labels") or {}


def name_of(pod: Pod) -> str:
    """Its name."""
    return str(pod["metadata"]["name"])


def node_of(pod: Pod) -> str | None:
    """Where it was put, if it was."""
    return (pod.get("spec") or {}).get("nodeName")


def where(pod: Pod) -> str:
    """The pod and its node, as a sentence names them."""
    node = node_of(pod)
    return f"pod {name_of(pod)} on {node}" if node else f"pod {name_of(pod)}"


def more(pods: Sequence[object]) -> str:
    """How many stand behind the first, as a sentence goes on."""
    return f" and {len(pods) - 1} more" if len(pods) > 1 else ""


def place_of(pod: Pod) -> tuple[bool, int]:
    """Orders pods as their workers are numbered: a PyTorchJob's master stands before worker 0."""
    labels = labels_of(pod)
    index = str(labels.get(_INDEX) or labels.get(_REPLICA_INDEX) or 0)
    return labels.get(_REPLICA_TYPE, "master").lower() != "master", int(index) if index.isdigit() else 0


def role_of(pod: Pod) -> str:
    """What it does in its trial: ``worker`` where nothing else is said."""
    return labels_of(pod).get(objects.ROLE_LABEL, "worker")


def current(pods: Sequence[P]) -> list[P]:
    """Of the pods of one place the newest: a job that its queue let go again still has old ones that are going.

    On a node that is cut off they stay for long, under other names or under those of their successors.
    """
    newest: dict[tuple[object, ...], P] = {}
    for pod in pods:
        known = newest.get(key := (role_of(pod), place_of(pod)))
        if known is None or _age(pod) > _age(known):
            newest[key] = pod
    kept = {id(pod) for pod in newest.values()}
    return [pod for pod in pods if id(pod) in kept]


def _age(pod: Pod) -> tuple[str, bool]:
    metadata = pod["metadata"]
    return str(metadata.get("creationTimestamp") or ""), "deletionTimestamp" not in metadata


def ends(pod: Pod, which: str = "containerStatuses") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Containers that ended, by name."""
    for each in status_of(pod).get(which) or ():
        if end := (each.get("state") or {}).get("terminated"):
            yield each["name"], end


def bad_ends(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Containers that ended with another code than 0, by name."""
    return ((name, end) for name, end in ends(pod) if end.get("exitCode"))


def terminated(pod: Pod, container: str) -> Mapping[str, Any] | None:
    """The end of one container."""
    return dict(ends(pod)).get(container)


def ended_at(pod: Pod) -> str:
    """RFC 3339, so in order as text; a pod without containers' ends comes after those that have them."""
    return min((str(end.get("finishedAt") or "~") for _, end in bad_ends(pod)), default="~")


def waits(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Containers that cannot start: ``(name, reason, message)``, init containers first."""
    for which in ("initContainerStatuses", "containerStatuses"):
        for each in status_of(pod).get(which) or ():
            if held := (each.get("state") or {}).get("waiting"):
                yield each["name"], held.get("reason", ""), held.get("message", "")


def disruption_of(pod: Pod) -> Mapping[str, Any] | None:
    """The condition of a pod that the cluster takes away: preempted, drained, its node gone."""
    for condition in status_of(pod).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return dict(condition)
    return None


def signal_of(end: Mapping[str, Any]) -> signal.Signals | None:
    """The signal that ended a container: 128 + n, as the runtime reports it."""
    number = end.get("signal") or (end.get("exitCode") or 0) - 128
    try:
        return signal.Signals(number)
    except ValueError:
        return None
