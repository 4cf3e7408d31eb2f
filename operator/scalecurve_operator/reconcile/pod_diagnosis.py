"""What a trial's pods and their events say: why they failed, what they wait for, where they ran. Pure.

Job conditions hold no reason, so it is read here. What is nearest to the cause is believed first: the kernel's or a
rank's own word that memory ran out, a pod that the cluster took away, a rank killed from outside, then whatever a rank
could still say, then exit codes; among equals the pod that ended first. Pods that their job's controller stops because
another failed end last and count last.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scalecurve_api.record import termination
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec import quantity
from scalecurve_api.spec.trial import FailedReason
from scalecurve_operator.runners.pod_status import (
    Pod,
    bad_ends,
    current,
    disruption_of,
    ended_at,
    ends,
    more,
    name_of,
    node_of,
    place_of,
    role_of,
    signal_of,
    status_of,
    terminated,
    waits,
    where,
)
from scalecurve_operator.runners.pod_template import GRACE_SECONDS
from scalecurve_operator.status.render import timestamp, unix

Event = Mapping[str, Any]
Finding = tuple[FailedReason, str]

MOST_EXIT_CODES = 64
_GOING_S = 2 * GRACE_SECONDS
"""A pod that is deleted is gone after so long, unless its node is cut off."""
_CONTAINERS = ("worker", "launcher", "pytorch", "tensorflow")
# status.reason of a pod that its node or the scheduler ended.
_TAKEN_AWAY = ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated")
_BROKEN = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_NO_IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
_NEVER_AN_IMAGE = ("InvalidImageName", "ErrImageNeverPull")
_NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError")
_CANNOT_RUN = ("StartError", "ContainerCannotRun")


def failure(pods: Sequence[Pod], events: Sequence[Event] = (), *, resumed_at: str | None = None) -> Finding | None:
    """Why the pods did not end well, or cannot begin; None where nothing of the kind can be seen.

    ``events`` are the job's own; they tell why pods are missing. ``resumed_at`` is when its queue let it go (RFC 3339).
    """
    bad = failed(pods)
    for look in (_out_of_memory, _ranks_verdict, _taken_away):
        for pod in bad:
            if found := look(pod):
                return found
    if found := _replaced(pods, resumed_at):
        return found
    for look in (_late, _not_admitted, _told_killed, _killed, _rank_failure, _exited):
        for pod in bad:
            if found := look(pod):
                return found
    return _cannot_begin(pods, events)


def failed(pods: Sequence[Pod]) -> list[Pod]:
    """Pods that ended badly, the first to do so first; those that were being deleted come last."""
    bad = [pod for pod in pods if status_of(pod).get("phase") == "Failed" or any(bad_ends(pod)) or disruption_of(pod)]
    return sorted(bad, key=lambda pod: ("deletionTimestamp" in pod["metadata"], ended_at(pod)))


def telling(pods: Sequence[Pod]) -> list[Pod]:
    """Pods whose last lines may say why: those that failed, or else those that run, launcher or chief first."""
    running = [pod for pod in pods if status_of(pod).get("phase") == "Running"]
    return failed(pods) or sorted(running, key=lambda pod: (role_of(pod) == "worker", place_of(pod)))


def waiting(pods: Sequence[Pod], events: Sequence[Event] = ()) -> str | None:
    """What a job that is still Starting waits for, in one line."""
    if found := _cannot_begin(pods, events):
        return f"{found[0].value}: {found[1]}"
    for pod in pods:
        for each in status_of(pod).get("initContainerStatuses") or ():
            if "running" in (each.get("state") or {}):
                return f"pod {name_of(pod)}: its init container {each['name']} has not ended"
    pending = [pod for pod in pods if status_of(pod).get("phase") == "Pending"]
    if pending:
        node = node_of(pending[0])
        return f"pod {name_of(pending[0])}{more(pending)}: {f'starts on {node}' if node else 'waits for the scheduler'}"
    unready = [pod for pod in pods if status_of(pod).get("phase") == "Running" and _not_ready(pod)]
    if unready:
        return f"{where(unready[0])}{more(unready)}: runs, and is not ready yet"
    return None


def _not_ready(pod: Pod) -> bool:
    conditions = status_of(pod).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "False" for each in conditions)


def hopeless(pods: Sequence[Pod], events: Sequence[Event] = ()) -> Finding | None:
    """What no waiting will mend: a name that is no image's, and a pod larger than its quota as a whole."""
    for pod in pods:
        for container, reason, message in waits(pod):
            if reason in _NEVER_AN_IMAGE:
                return FailedReason.image_pull, _image(pod, container, reason, message)
    for event in events:
        found = _not_created(event)
        if found is not None and found[0] is FailedReason.quota_exceeded and _exceeds_whole_quota(found[1]):
            return found
    return None


def rejected(events: Sequence[Event]) -> str | None:
    """What a job's operator said that will never make pods of it, in an Event and nowhere else (mpi-operator)."""
    return next((event.get("message", "") for event in events if event.get("reason") == "ValidationError"), None)


def nodes(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Nodes of the pods that carry workers, each once, in the order of the workers."""
    carriers = [pod for pod in pods if role_of(pod) == "worker"]
    return tuple(dict.fromkeys(node for pod in sorted(carriers, key=place_of) if (node := node_of(pod))))


def placement(pods: Sequence[Pod]) -> dict[str, str]:
    """Pod -> node, for those that have one and are to carry workers: a rank in a launcher is none of the layout's."""
    return {name_of(pod): node for pod in pods if role_of(pod) != "launcher" and (node := node_of(pod))}


def exit_codes(pods: Sequence[Pod]) -> dict[str, int | None]:
    """Pod -> exit code of its main container, 128 + n for a signal, None while it has none; the failed ones first."""
    ordered = {name_of(pod): pod for pod in (*failed(pods), *sorted(pods, key=place_of))}
    first = list(ordered.items())[:MOST_EXIT_CODES]
    return {name: (terminated(pod, main_container(pod)) or {}).get("exitCode") for name, pod in first}


def main_container(pod: Pod) -> str:
    """Name of the container that runs the workers; others may have been put beside it on the way."""
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    return next((name for name in names if name in _CONTAINERS), names[0])


def messages(pod: Pod) -> Iterator[str]:
    """Termination messages of a pod's containers."""
    for each in status_of(pod).get("containerStatuses") or ():
        if text := ((each.get("state") or {}).get("terminated") or {}).get("message"):
            yield str(text)


# What one failed pod says; each of these knows one kind of cause.


def _out_of_memory(pod: Pod) -> Finding | None:
    for name, end in ends(pod):
        if end.get("reason") == "OOMKilled":
            said = f"{where(pod)}: the kernel killed container {name}: it reached its memory limit"
            return FailedReason.out_of_memory, said
    return None


def _ranks_verdict(pod: Pod) -> Finding | None:
    """What a rank knows better than anyone who looks from outside."""
    for said in _rank_failures(pod):
        if said.reason in (FailedReason.out_of_memory, FailedReason.bad_workload):
            return _spoken(said)
    return None


def _taken_away(pod: Pod) -> Finding | None:
    status, disruption = status_of(pod), disruption_of(pod)
    if status.get("reason") in _TAKEN_AWAY:
        return FailedReason.evicted, f"{where(pod)}: {status['reason']}: {status.get('message', '')}".rstrip(": ")
    if disruption:
        said = f"{where(pod)}: {disruption.get('reason', '')}: {disruption.get('message', '')}"
        return FailedReason.evicted, said.rstrip(": ")
    return None


def _replaced(pods: Sequence[Pod], resumed_at: str | None) -> Finding | None:
    """A worker that was made after the launcher had begun stands for one that was taken away: mpi-operator does so.

    A job that is let go again has its launcher at once, and each worker when the one before it is gone: mpi-operator
    takes one that is still going for the new one.
    """
    launchers = current([pod for pod in pods if role_of(pod) == "launcher"])
    began = min((status_of(pod).get("startTime") or "~" for pod in launchers), default="~")
    if resumed_at:
        began = max(began, timestamp(unix(resumed_at) + _GOING_S))
    for pod in sorted(pods, key=place_of):
        if role_of(pod) == "worker" and str(pod["metadata"].get("creationTimestamp") or "") > began:
            name = name_of(pod)
            said = f"pod {name} was deleted while the trial ran, by hand, by a drain or by the cluster"
            tell = f"kubectl get events --field-selector involvedObject.name={name} tells more"
            return FailedReason.evicted, f"{said}; its job made it anew; {tell}"
    return None


def _late(pod: Pod) -> Finding | None:
    status = status_of(pod)
    if status.get("reason") != "DeadlineExceeded":
        return None
    return FailedReason.deadline_exceeded, f"{where(pod)}: {status.get('message', '')}".rstrip(": ")


def _not_admitted(pod: Pod) -> Finding | None:
    """A pod that its node refused, or of which a container never ran."""
    for name, end in ends(pod):
        if end.get("reason") in _CANNOT_RUN:
            return FailedReason.start_failed, f"{where(pod)}: container {name}: {end.get('message', end['reason'])}"
    for name, end in ends(pod, "initContainerStatuses"):
        if end.get("exitCode"):
            said = f"{where(pod)}: init container {name} exited with code {end['exitCode']}"
            return FailedReason.start_failed, said
    status = status_of(pod)
    if status.get("reason") and not any(ends(pod)):
        return FailedReason.start_failed, f"{where(pod)}: {status['reason']}: {status.get('message', '')}".rstrip(": ")
    return None


def _told_killed(pod: Pod) -> Finding | None:
    """A rank whose end its launcher saw: the launcher's own exit code then is no signal of its own."""
    first = next(_rank_failures(pod), None)
    return _spoken(first) if first is not None and first.reason == FailedReason.rank_killed else None


def _killed(pod: Pod) -> Finding | None:
    for name, end in bad_ends(pod):
        number = signal_of(end)
        if number in _BROKEN:
            return FailedReason.rank_killed, f"{where(pod)}: container {name} was killed by {number.name}"
    return None


def _rank_failure(pod: Pod) -> Finding | None:
    return next(map(_spoken, _rank_failures(pod)), None)


def _exited(pod: Pod) -> Finding | None:
    for name, end in bad_ends(pod):
        if number := signal_of(end):
            return FailedReason.rank_killed, f"{where(pod)}: container {name} was ended by {number.name}"
        # What is no message of ours is a user's own last word.
        text = "" if termination.read(end.get("message") or "") else " ".join((end.get("message") or "").split())
        said = f"{where(pod)}: container {name} exited with code {end.get('exitCode')}"
        return FailedReason.rank_failed, f"{said}: {text}" if text else said
    return None


# What keeps pods from beginning.


def _cannot_begin(pods: Sequence[Pod], events: Sequence[Event]) -> Finding | None:
    for pod in pods:
        for name, reason, message in waits(pod):
            if reason in _NO_IMAGE:
                return FailedReason.image_pull, _image(pod, name, reason, message)
            if reason in _NOT_STARTED:
                said = f"{where(pod)}: container {name}: {reason}: {message}"
                return FailedReason.start_failed, said.rstrip(": ")
    unplaced = [(name_of(pod), why) for pod in pods if (why := _unschedulable(pod)) is not None]
    if unplaced:
        first, why = unplaced[0]
        return FailedReason.unschedulable, f"pod {first}{more(unplaced)}: {why}"
    # The newest word: a quota may have been raised since.
    for event in sorted(events, key=_seen_at, reverse=True):
        if found := _not_created(event):
            return found
    return None


def _not_created(event: Event) -> Finding | None:
    """An event of a job whose pods the API server refused."""
    text = str(event.get("message", ""))
    if event.get("type") != "Warning" or not re.search(r"\bpods? .*\bis forbidden\b|[Ee]rror creating", text):
        return None
    short = text.partition("is forbidden: ")[2] or text
    quota = "exceeded quota" in text or "failed quota" in text
    return FailedReason.quota_exceeded if quota else FailedReason.start_failed, short


def _exceeds_whole_quota(message: str) -> bool:
    """Whether more is asked than there is: ``exceeded quota: q, requested: a=2, used: a=0, limited: a=1``."""
    parts = re.search(r"requested: (.*?), used: .*?, limited: (.*)", message)
    if parts is None:
        return False
    try:
        asked, limits = ({name: quantity.value(text) for name, text in _pairs(part)} for part in parts.groups())
    except ValueError:
        return False
    return any(name in limits and amount > limits[name] for name, amount in asked.items())


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for each in text.split(","):
        name, _, given = each.strip().rpartition("=")
        yield name, given


def _unschedulable(pod: Pod) -> str | None:
    for condition in status_of(pod).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            # Why preemption would not help is the scheduler's own affair.
            return str(condition.get("message", "")).partition(" preemption:")[0].rstrip() or condition.get(
                "reason", ""
            )
    return None


def _image(pod: Pod, container: str, reason: str, message: str) -> str:
    statuses = [*(status_of(pod).get("containerStatuses") or ()), *(status_of(pod).get("initContainerStatuses") or ())]
    image = next((each.get("image", "") for each in statuses if each["name"] == container), "")
    return f"{where(pod)}: container {container}, image {image!r}: {reason}: {message}".rstrip(": ")


def _rank_failures(pod: Pod) -> Iterator[RankFailure]:
    for text in messages(pod):
        if said := termination.read(text):
            yield from said.failures


def _spoken(said: RankFailure) -> Finding:
    known = said.reason in list(FailedReason)
    return FailedReason(said.reason) if known else FailedReason.rank_failed, f"rank {said.rank}: {said.message}"


def _seen_at(event: Event) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
