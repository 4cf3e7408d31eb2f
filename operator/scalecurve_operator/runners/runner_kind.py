"""The interface of a runner: one job kind, rendered and read back. Nothing here talks to a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import FailedReason
from scalecurve_operator.runners.job_request import JobRequest

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """State of a job, in the words of ``lifecycle``; but for ``resumed_at``, the rest has a meaning once it has ended.

    ``reason`` is set where the job itself knows it (a deadline); of any other failure only its pods can tell.
    """

    state: Job
    succeeded: bool | None = None
    message: str = ""
    reason: FailedReason | None = None
    resumed_at: str | None = None  # RFC 3339: when its queue released the job, if the job says so

    @classmethod
    def ended(cls, condition: Mapping[str, Any], succeeded: bool) -> Self:
        """A job that ended, by the condition that says so."""
        parts = filter(None, [condition.get("reason"), condition.get("message")])
        late = not succeeded and condition.get("reason") == "DeadlineExceeded"
        return cls(Job.ended, succeeded, ": ".join(parts), FailedReason.deadline_exceeded if late else None)

    @classmethod
    def underway(cls, job: Mapping[str, Any], suspend: object, pods_up: bool) -> Self:
        """A job that has not ended: running once all of its pods are.

        One that its queue has released stays queued until its controller says so: until then its times are of an
        earlier start.
        """
        if suspend:
            return cls(Job.queued, message="suspended: waits to be admitted")
        if "Suspended" in conditions_of(job):
            return cls(Job.queued, message="admitted: its controller has not resumed it yet")
        released = conditions_of(job, "False").get("Suspended", {})
        return cls(Job.running if pods_up else Job.starting, resumed_at=released.get("lastTransitionTime"))


def conditions_of(job: Mapping[str, Any], status: str = "True") -> dict[str, Mapping[str, Any]]:
    """The conditions of a job with this status, by type."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in conditions if condition.get("status") == status}


@runtime_checkable
class RunnerKind(Protocol):
    """One kind of job; ``runner.job_kind`` has the facts that other packages need too."""

    runner: Runner

    def render(self, request: JobRequest) -> Manifest:
        """The job, with labels, without owner; JobRequestError, naming the field, when none can carry the trial."""
        ...

    def companions(self, request: JobRequest, job: Mapping[str, Any]) -> list[Manifest]:
        """Services to create beside the created ``job``, which will own them."""
        return []

    def read(self, job: Mapping[str, Any]) -> JobStatus:
        """The job's status, from its object alone."""
        ...

    def trim(self, spec: Mapping[str, Any]) -> Manifest:
        """The part of the job's spec that ``read`` needs: all that the cache keeps of it."""
        ...

    def pods(self, request: JobRequest) -> int:
        """How many pods it creates, launchers and servers included."""
        return request.pods

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The pod whose log and termination message hold the record."""
        ...
