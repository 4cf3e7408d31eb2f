"""What a job says of itself, in the words of ``lifecycle``; every job kind is read into this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.trial import FailedReason


@dataclass(frozen=True, slots=True)
class Reading:
    """State of a job; but for ``resumed_at``, what follows says something only once it has ended.

    ``reason`` is set where the job itself knows it (a deadline); of any other failure only its pods can tell.
    """

    state: Job
    succeeded: bool | None = None
    message: str = ""
    ended_at: str | None = None
    """RFC 3339, to the second, as the job's controller wrote it."""
    reason: FailedReason | None = None
    resumed_at: str | None = None
    """RFC 3339: when its queue let the job go, as far as the job says so; of a job that runs, too."""


def conditions(job: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of a job that hold, by type."""
    found = (job.get("status") or {}).get("conditions") or []
    return {each["type"]: each for each in found if each.get("status") == "True"}


def ended(job: Mapping[str, Any], condition: Mapping[str, Any], succeeded: bool) -> Reading:
    """A job that ended, by the condition that says so."""
    said = [condition.get("reason"), condition.get("message")]
    at = (job.get("status") or {}).get("completionTime") or condition.get("lastTransitionTime")
    late = not succeeded and condition.get("reason") == "DeadlineExceeded"
    return Reading(
        Job.ended, succeeded, ": ".join(filter(None, said)), at, FailedReason.deadline_exceeded if late else None
    )
