"""A pod's role in its trial and the rendezvous address, from the variables that the job kind sets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from scalecurve_api.contract import COORDINATOR_ENV, HOSTS_ENV, POD_INDEX_ENV, POD_ROLE_ENV, PODS_ENV
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import TrialSpec

_INDEX_VARIABLES = tuple(
    dict.fromkeys([POD_INDEX_ENV, *(name for runner in Runner for name in runner.job_kind.index_variables)])
)
_DEFAULT_PORT = 29500


class PodRoleError(ValueError):
    """Variables of a job that do not say which pod this is; the message names them."""


class PodKind(Enum):
    """What a pod does in its trial."""

    workers = "workers"
    launcher = "launcher"
    auxiliary = "auxiliary"  # a parameter server, chief or evaluator of TensorFlow: runs the program, is no worker


@dataclass(frozen=True)
class PodRole:
    """One of ``pods`` pods, each with so many workers; ``index`` counts pods that carry workers."""

    kind: PodKind
    pods: int
    index: int
    workers: int
    host: str
    port: int
    task: str = ""  # of a pod aside: ``chief``, ``server-0`` and so on
    hosts: tuple[str, ...] = ()  # of all pods that carry workers, where the job kind tells nobody


def find_pod_role(trial: TrialSpec, environment: Mapping[str, str]) -> PodRole:
    """Read the variables of MPIJob, PyTorchJob, TFJob, JobSet, TrainJob and indexed Job, or ours."""
    pods = _number(environment, PODS_ENV)
    if pods < 1 or trial.point.workers % pods:
        workers = trial.point.workers
        raise PodRoleError(f"{PODS_ENV}={pods}: {workers} workers cannot be divided evenly over {pods} pods")
    kind, index, task = _kind_and_index(environment, pods)
    if index >= pods:
        raise PodRoleError(f"pod index {index} is out of range with {PODS_ENV}={pods}")
    host, port = _coordinator(environment, pods)
    name = environment.get(HOSTS_ENV, "").strip()
    hosts = tuple(name.replace("{}", str(number)) for number in range(pods)) if name else ()
    return PodRole(kind, pods, index, trial.point.workers // pods, host, port, task, hosts)


def _kind_and_index(environment: Mapping[str, str], pods: int) -> tuple[PodKind, int, str]:
    role = environment.get(POD_ROLE_ENV, "").strip()
    if "launcher" in (role, environment.get("K_MPI_JOB_ROLE")):
        return PodKind.launcher, 0, ""
    if role:
        server = f"server-{_number(environment, 'JOB_COMPLETION_INDEX')}" if role == "ps" else role
        return PodKind.auxiliary, 0, server
    if POD_INDEX_ENV not in environment and environment.get("TF_CONFIG", "").strip():
        return _task(environment["TF_CONFIG"])
    for name in _INDEX_VARIABLES:
        if environment.get(name, "").strip():
            return PodKind.workers, _number(environment, name), ""
    if pods == 1:
        return PodKind.workers, 0, ""
    raise PodRoleError(f"cannot tell which of {pods} pods this is: set one of {', '.join(_INDEX_VARIABLES)}, TF_CONFIG")


def _task(config: str) -> tuple[PodKind, int, str]:
    try:
        task = json.loads(config)["task"]
        kind, index = str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise PodRoleError(f"TF_CONFIG={config[:200]!r}: expected task.type and task.index") from error
    if kind == "worker":
        return PodKind.workers, index, ""
    return PodKind.auxiliary, 0, f"server-{index}" if kind == "ps" else kind


def _coordinator(environment: Mapping[str, str], pods: int) -> tuple[str, int]:
    text = environment.get(COORDINATOR_ENV, "").strip()
    if text:
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit():
            raise PodRoleError(f"{COORDINATOR_ENV}={text!r}: expected host:port")
        return host, int(port)
    host = environment.get("MASTER_ADDR", "").strip()
    if host:
        return host, _number(environment, "MASTER_PORT") if "MASTER_PORT" in environment else _DEFAULT_PORT
    if pods > 1 and "launcher" not in (environment.get("K_MPI_JOB_ROLE"), environment.get(POD_ROLE_ENV)):
        raise PodRoleError(f"cannot tell where {pods} pods meet: set {COORDINATOR_ENV} or MASTER_ADDR")
    return "127.0.0.1", _DEFAULT_PORT


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "").strip()
    if not text.isdigit():
        raise PodRoleError(f"{name}={text!r}: expected a whole number")
    return int(text)
