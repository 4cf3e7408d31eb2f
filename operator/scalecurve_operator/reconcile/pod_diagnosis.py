"""Diagnosing pods and Events: why they failed, what they wait for, where they ran. Pure.

Job conditions do not say why a job failed, so it is read here. What is nearest to the cause wins: exhausted memory as
the kernel or a rank reports it, a pod that the cluster took away, a rank killed from outside, then whatever a rank
could still report, then exit codes; among equals the pod that ended first. Pods that their job's controller stops
because another failed end last and count last.
"""

import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from scalecurve_api.record import termination
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec import quantity
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import FailedReason
from scalecurve_kube.resources import timestamp, unix_time
from scalecurve_operator.cache.cached_objects import Cause
from scalecurve_operator.runners.pod_status import (
    Pod,
    condition_of,
    disruption_of,
    ended_at,
    find_waiting_containers,
    more,
    name_of,
    newest_pods,
    node_of,
    nonzero_terminations,
    phase_of,
    position_of,
    role_of,
    signal_of,
    status_of,
    terminations,
    where,
)
from scalecurve_operator.runners.pod_template import GRACE_SECONDS

Event = Mapping[str, Any]

MAX_EXIT_CODES = 64
_TERMINATION_S = 2 * GRACE_SECONDS  # A deleted pod is gone after so long, unless its node is cut off
_CONTAINERS = frozenset(name for runner in Runner for name in runner.job_kind.containers)
# status.reason of a pod that its node or the scheduler ended.
_TAKEN_AWAY = ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated")
_BROKEN = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_NEVER_AN_IMAGE = ("InvalidImageName", "ErrImageNeverPull")
_IMAGE_TROUBLE = ("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")
_NO_IMAGE = (*_NEVER_AN_IMAGE, *_IMAGE_TROUBLE, "SignatureValidationFailed")
_NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError")
_CANNOT_RUN = ("StartError", "ContainerCannotRun")


def failure(pods: Sequence[Pod], events: Sequence[Event] = (), *, resumed_at: str | None = None) -> Cause | None:
    """Why the pods failed or cannot start; None if nothing of the kind shows.

    ``events`` are the job's own; they tell why pods are missing. Its queue released it at ``resumed_at`` (RFC 3339).
    """
    bad = failed(pods)
    return (
        _first(bad, _memory_exhaustion, _rank_verdict, _eviction)
        or _replacement(pods, resumed_at)
        or _first(bad, _past_deadline, _not_admitted, _rank_kill, _container_kill, _rank_failure, _container_exit)
        or _cannot_start(pods, events)
    )


def _first(pods: Sequence[Pod], *diagnoses: Callable[[Pod], Cause | None]) -> Cause | None:
    return next((cause for diagnose in diagnoses for pod in pods if (cause := diagnose(pod))), None)


def failed(pods: Sequence[Pod]) -> list[Pod]:
    """Pods that failed, in the order in which they did; those that were being deleted come last."""
    bad = [pod for pod in pods if phase_of(pod) == "Failed" or any(nonzero_terminations(pod)) or disruption_of(pod)]
    return sorted(bad, key=lambda pod: ("deletionTimestamp" in pod["metadata"], ended_at(pod)))


def restarts(pods: Sequence[Pod]) -> int:
    """How often a container or a pod of an attempt was started again, by whoever."""
    again = sum(
        container.get("restartCount") or 0
        for pod in pods
        for container in status_of(pod).get("containerStatuses") or ()
        if container["name"] in _CONTAINERS
    )
    return again + len(pods) - len(newest_pods(pods))


def log_sources(pods: Sequence[Pod]) -> list[Pod]:
    """Pods whose last lines may say why: those that failed, or else those that run, launcher or chief first."""
    running = [pod for pod in pods if phase_of(pod) == "Running"]
    return failed(pods) or sorted(running, key=lambda pod: (role_of(pod) == "worker", position_of(pod)))


def waiting(pods: Sequence[Pod], events: Sequence[Event] = ()) -> str | None:
    """What a job that is still Starting waits for, in one line."""
    if cause := _cannot_start(pods, events):
        return f"{cause[0].value}: {cause[1]}"
    for pod in pods:
        for container in status_of(pod).get("initContainerStatuses") or ():
            if "running" in (container.get("state") or {}):
                return f"pod {name_of(pod)}: init container {container['name']} is still running"
    pending = [pod for pod in pods if phase_of(pod) == "Pending"]
    if pending:
        node = node_of(pending[0])
        state = f"starting on {node}" if node else "waiting for the scheduler"
        return f"pod {name_of(pending[0])}{more(pending)}: {state}"
    running = [pod for pod in pods if phase_of(pod) == "Running"]
    unready = [pod for pod in running if (condition_of(pod, "Ready") or {}).get("status") == "False"]
    if unready:
        return f"{where(unready[0])}{more(unready)}: running, but not ready yet"
    return None


def hopeless(pods: Sequence[Pod], events: Sequence[Event] = ()) -> Cause | None:
    """What waiting cannot fix: an invalid image name, and a pod larger than its entire quota."""
    for pod in pods:
        for container, reason, message in find_waiting_containers(pod):
            if reason in _NEVER_AN_IMAGE:
                return FailedReason.image_pull, _image(pod, container, reason, message)
    for event in events:
        cause = _not_created(event)
        if cause is not None and cause[0] is FailedReason.quota_exceeded and _exceeds_entire_quota(cause[1]):
            return cause
    return None


def rejected(events: Sequence[Event]) -> str | None:
    """Why a job's operator will never create pods for it, which mpi-operator reports in an Event alone."""
    return next((event.get("message", "") for event in events if event.get("reason") == "ValidationError"), None)


def nodes(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Nodes of the pods that carry workers, without repetition, in the order of the workers."""
    carriers = [pod for pod in pods if role_of(pod) == "worker"]
    return tuple(dict.fromkeys(node for pod in sorted(carriers, key=position_of) if (node := node_of(pod))))


def placement(pods: Sequence[Pod]) -> dict[str, str]:
    """Pod -> node, for scheduled pods that carry workers: a launcher is not part of the layout."""
    return {name_of(pod): node for pod in pods if role_of(pod) != "launcher" and (node := node_of(pod))}


def exit_codes(pods: Sequence[Pod]) -> dict[str, int | None]:
    """Pod -> exit code of its main container, 128 + n for a signal, None while it has none; the failed ones first."""
    ordered = {name_of(pod): pod for pod in (*failed(pods), *sorted(pods, key=position_of))}
    return {
        name: dict(terminations(pod)).get(main_container(pod), {}).get("exitCode")
        for name, pod in islice(ordered.items(), MAX_EXIT_CODES)
    }


def main_container(pod: Pod) -> str:
    """The container that runs the workers; an admission webhook may have added others."""
    names = [str(container["name"]) for container in pod["spec"]["containers"]]
    return next((name for name in names if name in _CONTAINERS), names[0])


def messages(pod: Pod) -> Iterator[str]:
    """Termination messages of a pod's containers."""
    return (str(end["message"]) for _, end in terminations(pod) if end.get("message"))


# One failed pod; each function knows one kind of cause.


def _memory_exhaustion(pod: Pod) -> Cause | None:
    for name, end in terminations(pod):
        if end.get("reason") == "OOMKilled":
            text = f"{where(pod)}: the kernel killed container {name}: it reached its memory limit"
            return FailedReason.out_of_memory, text
    return None


def _rank_verdict(pod: Pod) -> Cause | None:
    """What a rank knows better than any outside observer."""
    for failure in _rank_failures(pod):
        if failure.reason in (FailedReason.out_of_memory, FailedReason.bad_workload):
            return _failure_cause(failure)
    return None


def _eviction(pod: Pod) -> Cause | None:
    taken = status_of(pod).get("reason") in _TAKEN_AWAY
    statement = status_of(pod) if taken else disruption_of(pod)
    return (FailedReason.evicted, _quote_statement(pod, statement)) if statement else None


def _quote_statement(pod: Pod, statement: Mapping[str, Any]) -> str:
    return f"{where(pod)}: {statement.get('reason', '')}: {statement.get('message', '')}".rstrip(": ")


def _replacement(pods: Sequence[Pod], resumed_at: str | None) -> Cause | None:
    """A worker created after the launcher had started replaces one that was taken away: mpi-operator does that.

    A job that its queue releases again gets its launcher at once, and each worker when its predecessor is gone:
    mpi-operator takes one that is still terminating for the new one.
    """
    launchers = newest_pods([pod for pod in pods if role_of(pod) == "launcher"])
    began = min((status_of(pod).get("startTime") or "~" for pod in launchers), default="~")
    if resumed_at:
        began = max(began, timestamp(unix_time(resumed_at) + _TERMINATION_S))
    for pod in sorted(pods, key=position_of):
        if role_of(pod) == "worker" and str(pod["metadata"].get("creationTimestamp") or "") > began:
            name = name_of(pod)
            text = f"pod {name} was deleted while the trial ran, by a user, a drain or the cluster; its job replaced it"
            return FailedReason.evicted, f"{text}; see kubectl get events --field-selector involvedObject.name={name}"
    return None


def _past_deadline(pod: Pod) -> Cause | None:
    status = status_of(pod)
    if status.get("reason") != "DeadlineExceeded":
        return None
    return FailedReason.deadline_exceeded, f"{where(pod)}: {status.get('message', '')}".rstrip(": ")


def _not_admitted(pod: Pod) -> Cause | None:
    """A pod that its node refused, or whose container never ran."""
    for name, end in terminations(pod):
        if end.get("reason") in _CANNOT_RUN:
            return FailedReason.start_failed, f"{where(pod)}: container {name}: {end.get('message', end['reason'])}"
    for name, end in terminations(pod, "initContainerStatuses"):
        if end.get("exitCode"):
            return FailedReason.start_failed, f"{where(pod)}: init container {name} exited with code {end['exitCode']}"
    status = status_of(pod)
    if status.get("reason") and not any(terminations(pod)):
        return FailedReason.start_failed, _quote_statement(pod, status)
    return None


def _rank_kill(pod: Pod) -> Cause | None:
    """A rank whose end its launcher saw: the launcher's own exit code then stands for no signal of its own."""
    first = next(_rank_failures(pod), None)
    return _failure_cause(first) if first is not None and first.reason == FailedReason.rank_killed else None


def _container_kill(pod: Pod) -> Cause | None:
    for name, end in nonzero_terminations(pod):
        number = signal_of(end)
        if number in _BROKEN:
            return FailedReason.rank_killed, f"{where(pod)}: container {name} was killed by {number.name}"
    return None


def _rank_failure(pod: Pod) -> Cause | None:
    return next(map(_failure_cause, _rank_failures(pod)), None)


def _container_exit(pod: Pod) -> Cause | None:
    for name, end in nonzero_terminations(pod):
        if number := signal_of(end):
            return FailedReason.rank_killed, f"{where(pod)}: container {name} was ended by {number.name}"
        # A message that is not ours is the user's own last words.
        message = end.get("message") or ""
        words = "" if termination.read(message) else " ".join(message.split())
        text = f"{where(pod)}: container {name} exited with code {end.get('exitCode')}"
        return FailedReason.rank_failed, f"{text}: {words}" if words else text
    return None


# What keeps pods from starting.


def _cannot_start(pods: Sequence[Pod], events: Sequence[Event]) -> Cause | None:
    for pod in pods:
        for name, reason, message in find_waiting_containers(pod):
            if reason in _NO_IMAGE:
                return FailedReason.image_pull, _image(pod, name, reason, message)
            if reason in _NOT_STARTED:
                return FailedReason.start_failed, f"{where(pod)}: container {name}: {reason}: {message}".rstrip(": ")
    unplaced = [(name_of(pod), why) for pod in pods if (why := _unschedulable(pod)) is not None]
    if unplaced:
        first, why = unplaced[0]
        return FailedReason.unschedulable, f"pod {first}{more(unplaced)}: {why}"
    # The newest one: a quota may have been raised since.
    newest = sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "", reverse=True)
    return next((cause for event in newest if (cause := _not_created(event))), None)


def _not_created(event: Event) -> Cause | None:
    text = str(event.get("message", ""))
    if event.get("type") != "Warning" or not re.search(r"\bpods? .*\bis forbidden\b|[Ee]rror creating", text):
        return None
    short = text.partition("is forbidden: ")[2] or text
    quota = "exceeded quota" in text or "failed quota" in text
    return FailedReason.quota_exceeded if quota else FailedReason.start_failed, short


def _exceeds_entire_quota(message: str) -> bool:
    """Whether the request alone exceeds it: ``exceeded quota: q, requested: a=2, used: a=0, limited: a=1``."""
    parts = re.search(r"requested: (.*?), used: .*?, limited: (.*)", message)
    if parts is None:
        return False
    try:
        requested, limits = map(_amounts, parts.groups())
    except ValueError:
        return False
    return any(name in limits and amount > limits[name] for name, amount in requested.items())


def _amounts(text: str) -> dict[str, Decimal]:
    pairs = (pair.strip().rpartition("=") for pair in text.split(","))
    return {name: quantity.value(amount) for name, _, amount in pairs}


def _unschedulable(pod: Pod) -> str | None:
    condition = condition_of(pod, "PodScheduled") or {}
    if condition.get("status") != "False":
        return None
    # Why preemption would not help concerns the scheduler alone.
    return str(condition.get("message", "")).partition(" preemption:")[0].rstrip() or condition.get("reason", "")


def _image(pod: Pod, container: str, reason: str, message: str) -> str:
    statuses = [*(status_of(pod).get("containerStatuses") or ()), *(status_of(pod).get("initContainerStatuses") or ())]
    image = next((status.get("image", "") for status in statuses if status["name"] == container), "")
    return f"{where(pod)}: container {container}, image {image!r}: {reason}: {message}".rstrip(": ")


def _rank_failures(pod: Pod) -> Iterator[RankFailure]:
    for text in messages(pod):
        if message := termination.read(text):
            yield from message.failures


def _failure_cause(failure: RankFailure) -> Cause:
    known = failure.reason in list(FailedReason)
    reason = FailedReason(failure.reason) if known else FailedReason.rank_failed
    return reason, f"rank {failure.rank}: {failure.message}"
