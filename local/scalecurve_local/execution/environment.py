"""The environment of a trial's processes.

The engine's own environment without variables of another job, then the contract's variables, then the user's
``workload.env``.
"""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from scalecurve_api import contract
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.devices.shares import Share

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_FOREIGN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT"),
)
_FOREIGN_PREFIXES = ("TORCHELASTIC_", "OMPI_COMM_", "PMIX_", "PMI_", "SCALECURVE_")


def trial_environment(
    inherited: Mapping[str, str],
    trial_file: Path,
    out: Path,
    share: Share,
    temporary: Path,
    master_port: int,
    metrics_port: int | None,
    hide_gpus: bool,
) -> dict[str, str]:
    """The environment of every process of the trial; ``master_port`` is reserved for this run."""
    prefixes, own = _FOREIGN_PREFIXES, (contract.METRICS_LINGER_ENV, contract.METRICS_ADDRESS_ENV)
    foreign = {name for name in inherited if name in _FOREIGN or (name.startswith(prefixes) and name not in own)}
    env = {name: value for name, value in inherited.items() if name not in foreign}
    env |= {
        contract.TRIAL_ENV: str(trial_file),
        contract.OUT_ENV: str(out),
        contract.SECRET_ENV: secrets.token_hex(16),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(master_port),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(temporary),
        # ``command: [python, train.py]`` means the Python that runs ScaleCurve, activated or not.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)]),
    }
    if not share.launched:
        env |= dict.fromkeys((contract.THREADS_ENV, *THREAD_VARIABLES), str(share.threads))
    elif share.threads:
        env.setdefault("OMP_NUM_THREADS", str(share.threads))
    if share.cores:
        env[contract.CORES_ENV] = ";".join(",".join(map(str, cores)) for cores in share.cores)
    if share.gpus:
        env[contract.DEVICES_ENV] = ",".join(share.gpus)
        # CUDA hides every device when one is named twice.
        env["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(share.gpus))
    elif hide_gpus:
        env["CUDA_VISIBLE_DEVICES"] = ""
    if metrics_port is not None:
        # /metrics asks nobody who they are: other machines are let in only where the user says so.
        env = {contract.METRICS_ADDRESS_ENV: "127.0.0.1", **env, contract.METRICS_PORT_ENV: str(metrics_port)}
    if Path("/sys/class/net/lo").exists():
        # On one machine nothing needs a network card, and a host name that does not resolve does no harm.
        env = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", **env}
    return env


def rank_environment(rank: int, trial: TrialSpec) -> dict[str, str]:
    """What no launcher sets for a plain process: its rank and the number of processes."""
    world = str(trial.workload.processes(trial.point.workers))
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
