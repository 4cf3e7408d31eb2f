"""Which job kinds a cluster has: their operators may come and go while we run."""

from __future__ import annotations

import time

from scalecurve_kube.client import Cluster, Resource
from scalecurve_operator.reconcile.job_objects import resource_of
from scalecurve_operator.runners import RUNNERS, RunnerKind

MISSING_S = 10.0
"""A job kind that is not installed is looked for so often."""
_THERE_S = 300.0


class Installed:
    """In one cluster, as it was found a moment ago."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.found: dict[Resource, tuple[bool, float]] = {}

    async def missing(self, wanted: RunnerKind) -> str | None:
        """Says that a job kind is not installed, and which are; None where it is there."""
        if await self._has(resource_of(wanted)):
            return None
        there = [runner.kind for runner in RUNNERS.values() if await self._has(resource_of(runner))]
        return (
            f"this cluster has no {wanted.kind} ({wanted.plural}.{wanted.group}/{wanted.version}); "
            f"install its operator, or use runner: {' or '.join(there)}"
        )

    async def _has(self, resource: Resource) -> bool:
        if resource.group == "batch":
            return True
        known = self.found.get(resource)
        if known is None or time.monotonic() - known[1] > (_THERE_S if known[0] else MISSING_S):
            known = self.found[resource] = (await self.cluster.has(resource), time.monotonic())
        return known[0]
