"""Which job kinds a cluster serves: their operators may be installed or removed at any time."""

import time
from collections.abc import Sequence

from scalecurve_api.planning.runner_choice import RunnerChoice, choose
from scalecurve_api.spec.job_kinds import DEFAULT_RUNNER, Runner
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.resources import resource_of
from scalecurve_operator.cache.cached_objects import CachedExperiment, ExperimentObjects

MISSING_S = 10.0  # How often a missing job kind is looked for
_PRESENT_S = 300.0


class InstalledKinds:
    """The job kinds of one cluster, looked up again after a while."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.lookups: dict[Runner, tuple[bool, float]] = {}

    async def problem(self, runner: Runner) -> str | None:
        """Says that a job kind is not installed and which are; None if it is."""
        if await self._is_installed(runner):
            return None
        installed = [other.value for other in Runner if await self._is_installed(other)]
        kind = runner.job_kind
        return (
            f"this cluster has no {runner.value} ({kind.plural}.{kind.group}/{kind.version}); "
            f"install its operator, or use runner: {' or '.join(installed)}"
        )

    async def choice(self, options: Sequence[RunnerChoice]) -> RunnerChoice | None:
        """The best of what may carry an experiment that this cluster has."""
        return choose(options, {option.runner for option in options if await self._is_installed(option.runner)})

    async def _is_installed(self, runner: Runner) -> bool:
        if not runner.job_kind.installed_by:
            return True
        installed, looked_up = self.lookups.get(runner, (False, float("-inf")))
        if time.monotonic() - looked_up > (_PRESENT_S if installed else MISSING_S):
            installed = await self.cluster.serves(resource_of(runner))
            self.lookups[runner] = installed, time.monotonic()
        return installed


def previous_choice(experiment: CachedExperiment, objects: ExperimentObjects) -> RunnerChoice | None:
    """The runner of an experiment that has begun: it keeps that, whatever was installed or removed since."""
    begun = "startedAt" in experiment.status or any(t.owner == experiment.uid for t in objects.trials.values())
    if not begun:
        return None
    if (runner := experiment.status.get("runner")) is not None:
        return RunnerChoice(Runner(runner), str(experiment.status.get("runnerReason") or ""))
    # Its operator did not choose yet.
    own = {trial.uid for trial in objects.trials.values() if trial.owner == experiment.uid}
    kinds = (job.body["kind"] for job in objects.jobs.values() if job.owner in own)
    return RunnerChoice(Runner(next(kinds, DEFAULT_RUNNER)), "the experiment began with it")


def none_installed(options: Sequence[RunnerChoice]) -> str:
    """What to say where ``choice`` finds nothing."""
    needed = dict.fromkeys(option.runner.job_kind.installed_by for option in options)
    return f"this cluster has no kind of job that can carry the program; install {', or '.join(needed)}"
