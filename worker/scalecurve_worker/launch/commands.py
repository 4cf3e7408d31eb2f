"""Which processes a pod starts for a trial and a role: torchrun, mpirun, or the ranks themselves."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from scalecurve_api.contract import CORES_ENV, HOSTFILE_ENV, POD_INDEX_ENV, ROLE_ENV, THREADS_ENV
from scalecurve_api.programs.workload import Launcher
from scalecurve_api.spec.placeholders import variables
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.launch.pod_role import PodKind, PodRole, PodRoleError
from scalecurve_worker.launch.ssh_keys import KEY_ENV, SSH_FOLDER
from scalecurve_worker.launch.sshd import ssh_port

DEFAULT_HOSTFILE = "/etc/mpi/hostfile"
# What job kinds tell their pods of ranks, none of which is a rank's own.
_FOREIGN = (POD_INDEX_ENV, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
_FOREIGN_PREFIXES = ("PET_", "TORCHELASTIC_")
# ssh starts ranks with an empty environment: what tunes libraries has to be named.
_FORWARDED = (
    "SCALECURVE_", "NCCL_", "OMP_", "MKL_", "KMP_", "GLOO_", "CUDA_", "TORCH_", "PYTORCH_", "UCX_", "PYTHON", "TF_",
    "HF_", "HOROVOD_",
)  # fmt: skip
_FORWARDED_NAMES = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_TENSORFLOW_PORT = 2222  # as under a TFJob
_SSH = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
    "-o BatchMode=yes -o ConnectionAttempts=10 -o LogLevel=ERROR"
)
_MPI_SETTINGS = {
    # Open MPI 5 is PRRTE and reads PRTE_MCA_*; Open MPI 4 reads OMPI_MCA_*. Workers would connect to one another,
    # with settings that only the launcher has.
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
# A rank whose peer was killed aborts as soon as the connection breaks, and mpirun reports the first end alone: the
# abort waits, so that mpirun notices the kill.
_ABORT_DELAY = {"OMPI_MCA_opal_abort_delay": "5"}


@dataclass(frozen=True)
class PodProcess:
    """One process that the pod starts, with its whole environment."""

    argv: list[str]
    env: dict[str, str]


def commands(
    trial: TrialSpec, role: PodRole, environment: Mapping[str, str], mpirun: str = "mpirun"
) -> list[PodProcess]:
    """Return the processes that the pod starts.

    ``environment`` is the pod's; what the user set in ``workload.env`` comes last.
    """
    env = {
        name: value
        for name, value in environment.items()
        if name not in _FOREIGN and not name.startswith(_FOREIGN_PREFIXES)
    }
    # One worker must compute with as many threads as each of many; torchrun sets 1, but only where it starts several.
    env = {THREADS_ENV: "1", "PYTHONUNBUFFERED": "1", **env, **variables(trial), **trial.workload.environment}
    if role.kind is PodKind.launcher:
        return [_mpirun(trial, env, mpirun)]
    env[POD_INDEX_ENV] = str(role.index)
    meeting = {"MASTER_ADDR": role.host, "MASTER_PORT": str(role.port)}
    if role.kind is PodKind.auxiliary:
        # No rank, and the only one here: it may use every core of its pod.
        return [PodProcess(_program(trial), {**env, **meeting, ROLE_ENV: role.task, "LOCAL_WORLD_SIZE": "1"})]
    launcher = trial.workload.resolved_launcher
    if launcher is Launcher.mpirun:
        raise PodRoleError("workload.launcher: mpirun starts ranks in pods of a JobSet or MPIJob only; set spec.runner")
    if role.hosts and role.workers == 1 and trial.workload.words:
        env.setdefault("TF_CONFIG", _tf_config(role))
    if launcher is Launcher.processes:
        return _processes(trial, role, {**env, **meeting})
    return [PodProcess([*_torchrun(role), *_program(trial)], env)]


def _tf_config(role: PodRole) -> str:
    """For a user's own program, with one task in a pod, as a TFJob has it; ours find one another by themselves."""
    workers = [f"{host}:{_TENSORFLOW_PORT}" for host in role.hosts] if role.pods > 1 else ["localhost:2222"]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": role.index}})


def _torchrun(role: PodRole) -> list[str]:
    # Static rendezvous: ranks follow the pods' numbers, so that rank 0, whose log holds the record, is in pod 0.
    # c10d numbers pods in the order they come.
    place = [f"--nnodes={role.pods}", f"--node-rank={role.index}"]
    place += [f"--master-addr={role.host}", f"--master-port={role.port}"]
    if role.pods == 1:
        place = ["--standalone", "--local-addr=127.0.0.1"]
    launcher = [*_python("torch.distributed.run"), f"--nproc-per-node={role.workers}", "--max-restarts=0"]
    return [*launcher, *place, "--no-python"]


def _processes(trial: TrialSpec, role: PodRole, env: Mapping[str, str]) -> list[PodProcess]:
    local = trial.workload.processes(role.workers)
    world = {"WORLD_SIZE": str(local * role.pods), "LOCAL_WORLD_SIZE": str(local)}
    return [
        PodProcess(_program(trial), {**env, **world, "RANK": str(role.index * local + at), "LOCAL_RANK": str(at)})
        for at in range(local)
    ]


def _mpirun(trial: TrialSpec, env: Mapping[str, str], mpirun: str) -> PodProcess:
    # Cores are numbered differently in another pod.
    tuning = {name for name in env if name in _FORWARDED_NAMES or name.startswith(_FORWARDED)} - {CORES_ENV}
    sources = {source.variable for source in trial.workload.env_from}
    forwarded = sorted(tuning | {name for name in env if name in trial.workload.env or name in sources})
    variables = [part for name in forwarded for part in ("-x", name)]
    # By hand: Open MPI 5 ignores the variables that mpi-operator sets, starts every rank in the launcher, and
    # succeeds (kubeflow/mpi-operator#842).
    hosts = ["--hostfile", env.get(HOSTFILE_ENV) or DEFAULT_HOSTFILE]
    placement = ["-n", str(trial.point.workers), "--map-by", "slot", "--bind-to", "none"]
    argv = [mpirun, *hosts, *placement, *variables, *_program(trial)]
    ssh = f"-p {ssh_port(env)} -i {env.get(KEY_ENV) or f'{SSH_FOLDER}/id_rsa'} {_SSH}"
    # Over what mpi-operator sets, which knows neither the port nor the key.
    return PodProcess(
        argv, {**_ABORT_DELAY, **env, **_MPI_SETTINGS, "PRTE_MCA_plm_ssh_args": ssh, "OMPI_MCA_plm_rsh_args": ssh}
    )


def _program(trial: TrialSpec) -> list[str]:
    return [*_python("scalecurve_worker"), *trial.workload.words]


def _python(module: str) -> list[str]:
    """-P keeps the current folder out of the import path: a ``random.py`` there must not break a launcher."""
    return [sys.executable, "-P", "-m", module]
