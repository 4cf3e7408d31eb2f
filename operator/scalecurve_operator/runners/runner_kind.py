"""The interface of a runner: one job kind, rendered and read back. Nothing here talks to a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from scalecurve_operator.runners.job_state import Reading
from scalecurve_operator.runners.request import Request

Manifest = dict[str, Any]


class RunnerKind(Protocol):
    """One kind of job; ``group``, ``version`` and ``plural`` are where the API server keeps it."""

    @property
    def kind(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...

    def render(self, request: Request) -> Manifest:
        """The job, with labels, without owner.

        Raises:
            RequestError: when no job can be made of it; the message names the field.
        """
        ...

    def companions(self, request: Request, job: Mapping[str, Any]) -> list[Manifest]:
        """What must stand beside the created ``job``, to be owned by it."""
        ...

    def read(self, job: Mapping[str, Any]) -> Reading:
        """The job's state, from its object alone."""
        ...

    def pods(self, request: Request) -> int:
        """How many pods it makes, launchers and servers included."""
        ...

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The pod whose log and termination message hold the record."""
        ...
