"""The interface of a runner: one job kind, rendered and read back. Nothing here talks to a cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.job_status import JobStatus

Manifest = dict[str, Any]


class RunnerKind(Protocol):
    """One kind of job; ``runner.job_kind`` has the facts that other packages need too."""

    @property
    def runner(self) -> Runner: ...

    def render(self, request: JobRequest) -> Manifest:
        """The job, with labels, without owner.

        Raises:
            JobRequestError: when no job can carry the trial; the message names the field.
        """
        ...

    def companions(self, request: JobRequest, job: Mapping[str, Any]) -> list[Manifest]:
        """Services to create beside the created ``job``, which will own them."""
        ...

    def read(self, job: Mapping[str, Any]) -> JobStatus:
        """The job's status, from its object alone."""
        ...

    def trim(self, spec: Mapping[str, Any]) -> Manifest:
        """The part of the job's spec that ``read`` needs: all that the cache keeps of it."""
        ...

    def pods(self, request: JobRequest) -> int:
        """How many pods it creates, launchers and servers included."""
        ...

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The pod whose log and termination message hold the record."""
        ...
