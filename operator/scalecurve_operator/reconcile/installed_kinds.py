"""Which job kinds a cluster serves: their operators may be installed or removed at any time."""

import time

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.resources import resource_of

MISSING_S = 10.0
"""How often a missing job kind is looked for."""
_PRESENT_S = 300.0


class InstalledKinds:
    """The job kinds of one cluster, looked up again after a while."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.lookups: dict[Runner, tuple[bool, float]] = {}

    async def problem(self, runner: Runner) -> str | None:
        """Says that a job kind is not installed and which are; None if it is."""
        if await self._installed(runner):
            return None
        installed = [other.value for other in Runner if await self._installed(other)]
        kind = runner.job_kind
        return (
            f"this cluster has no {runner.value} ({kind.plural}.{kind.group}/{kind.version}); "
            f"install its operator, or use runner: {' or '.join(installed)}"
        )

    async def _installed(self, runner: Runner) -> bool:
        if not runner.job_kind.installed_by:
            return True
        installed, looked_up = self.lookups.get(runner, (False, float("-inf")))
        if time.monotonic() - looked_up > (_PRESENT_S if installed else MISSING_S):
            installed = await self.cluster.serves(resource_of(runner))
            self.lookups[runner] = installed, time.monotonic()
        return installed
