"""The status of a job, in the words of ``lifecycle``; every job kind is read into this."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.trial import FailedReason


@dataclass(frozen=True, slots=True)
class JobStatus:
    """State of a job; except for ``resumed_at``, the other fields mean something only once it has ended.

    ``reason`` is set where the job itself knows it (a deadline); of any other failure only its pods can tell.
    """

    state: Job
    succeeded: bool | None = None
    message: str = ""
    reason: FailedReason | None = None
    resumed_at: str | None = None
    """RFC 3339: when its queue released the job, if the job says so"""


SUSPENDED = JobStatus(Job.queued, message="suspended: waits to be admitted")


def true_conditions(job: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of a job that are True, by type."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in conditions if condition.get("status") == "True"}


def ended(condition: Mapping[str, Any], succeeded: bool) -> JobStatus:
    """A job that ended, by the condition that says so."""
    parts = filter(None, [condition.get("reason"), condition.get("message")])
    late = not succeeded and condition.get("reason") == "DeadlineExceeded"
    return JobStatus(Job.ended, succeeded, ": ".join(parts), FailedReason.deadline_exceeded if late else None)


def underway(pods_up: bool) -> JobStatus:
    """A job that has not ended: running once all of its pods are."""
    return JobStatus(Job.running if pods_up else Job.starting)
