"""The built-in programs of this release, loaded when they run."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

from scalecurve_api.programs.collectives import over_mpi
from scalecurve_api.programs.workload import Program, Workload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError

_PROGRAMS = {
    Program.torch: ("scalecurve_worker.torch.program", "torch"),
    Program.allreduce: ("scalecurve_worker.collectives.torch_library", "torch"),
    Program.tensorflow: ("scalecurve_worker.tensorflow.program", "tensorflow"),
    Program.horovod: ("scalecurve_worker.extras.horovod.torch_program", "torch"),
}
_OVER_MPI = ("scalecurve_worker.collectives.mpi_library", "mpi4py")


def program(workload: Workload) -> Callable[[TrialSpec], None]:
    """The function that runs a trial of the workload's program on this rank.

    Raises:
        WorkloadError: not in this release, or its framework is not installed.
    """
    name = workload.program
    if name not in _PROGRAMS:
        allowed = ", ".join(_PROGRAMS)
        raise WorkloadError(f"workload.program: {name.value} is not built in; allowed: {allowed}")
    module, framework = _OVER_MPI if over_mpi(workload) else _PROGRAMS[name]
    if importlib.util.find_spec(framework) is None:
        raise WorkloadError(f"workload.program: {name.value} needs {framework}, which is not installed here")
    run: Callable[[TrialSpec], None] = importlib.import_module(module).run
    return run
