"""The function that runs a workload's program, imported when it runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from scalecurve_api.programs.workload import Workload
from scalecurve_api.registry import load
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError

_OVER_MPI = ("scalecurve_worker.collectives.mpi_library:run", "mpi4py")


def program(workload: Workload) -> Callable[[TrialSpec], None]:
    """The function that runs a trial of the workload's program on this rank.

    Raises:
        WorkloadError: the program is a command, or its framework is not installed.
    """
    target, framework = _OVER_MPI if workload.over_mpi else (workload.runs, workload.requires)
    if not target:
        raise WorkloadError(f"workload.program: {workload.program} runs a command, and no function")
    if framework and importlib.util.find_spec(framework) is None:
        raise WorkloadError(f"workload.program: {workload.program} needs {framework}, which is not installed here")
    run: Callable[[TrialSpec], None] = load(target)
    return run
