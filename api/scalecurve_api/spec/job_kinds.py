"""The kinds of Kubernetes job that can carry a trial, and the facts about each that several parts need.

Adding one: its facts here, or by an entry point in the group ``scalecurve.job_kinds``; its renderer and reader in
``scalecurve_operator.runners``, or in ``scalecurve.runners``. Everything else (CRD, RBAC, doctor, capacity, rules, pod
index) follows from the facts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scalecurve_api.programs.workload import Workload
from scalecurve_api.registry import Registry

_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_TRAINING_OPERATOR = "the Kubeflow training operator 1.x"
_TENSORFLOW = "tensorflow"


def _carries_every_program(workloads: Sequence[Workload]) -> bool:
    return True


@dataclass(frozen=True)
class Preference:
    """When ``runner: auto`` takes a kind of job; kinds of equal ``order`` stand in that of their registration."""

    reason: str
    order: int  # 1 carries every program, 2 is a platform's own, 3 is made for some programs
    fits: Callable[[Sequence[Workload]], bool] = _carries_every_program
    in_a_queue: bool | None = True  # whether Kueue admits it by default; None: it is never queued


@dataclass(frozen=True)
class JobKind:
    """Facts about one kind of job."""

    group: str
    version: str
    plural: str
    installed_by: str  # what to install to get it, for people; empty for what every cluster has
    index_labels: tuple[str, ...]  # labels (or annotations) of a pod that hold its index
    leader_label: tuple[str, str] | None = None  # of the pod that comes before index 0, with its value
    index_variables: tuple[str, ...] = ()  # environment variables that tell a pod its index
    containers: tuple[str, ...] = ("worker",)  # names of the containers that run the program
    launcher_pods: int = 0  # pods that carry no worker
    uses_mpirun: bool = False  # can start ranks with mpirun
    only_mpirun: bool = False  # can start them in no other way
    child_jobs: tuple[str, ...] = ()  # what follows the job's name in those of batch/v1 Jobs that it makes
    has_parameter_servers: bool = False
    may_restart: bool = False  # what it is made of, and not we, decides whether pods that fail start again
    preference: Preference | None = None  # without one, it is taken only where spec.runner names it


_BUILT_IN = {
    "MPIJob": JobKind(
        "kubeflow.org",
        "v2beta1",
        "mpijobs",
        installed_by="mpi-operator 0.5 or newer",
        index_labels=(_REPLICA_INDEX,),
        containers=("worker", "launcher"),
        launcher_pods=1,
        uses_mpirun=True,
        only_mpirun=True,
        child_jobs=("-launcher",),
        preference=Preference(
            "starts ranks with mpirun", 3, lambda workloads: any(workload.needs_mpirun for workload in workloads)
        ),
    ),
    "PyTorchJob": JobKind(
        "kubeflow.org",
        "v1",
        "pytorchjobs",
        installed_by=_TRAINING_OPERATOR,
        index_labels=(_REPLICA_INDEX,),
        leader_label=(_REPLICA_TYPE, "master"),
        # Its RANK counts pods, not ranks.
        index_variables=("PET_NODE_RANK", "RANK"),
        containers=("pytorch",),
        preference=Preference(
            "starts torchrun",
            3,
            lambda workloads: all(workload.requires != _TENSORFLOW for workload in workloads),
            in_a_queue=False,
        ),
    ),
    "TFJob": JobKind(
        "kubeflow.org",
        "v1",
        "tfjobs",
        installed_by=_TRAINING_OPERATOR,
        index_labels=(_REPLICA_INDEX,),
        containers=("tensorflow",),
        has_parameter_servers=True,
        preference=Preference(
            "made for TensorFlow",
            3,
            lambda workloads: all(workload.requires == _TENSORFLOW for workload in workloads),
            in_a_queue=False,
        ),
    ),
    "Job": JobKind(
        "batch",
        "v1",
        "jobs",
        installed_by="",
        index_labels=("batch.kubernetes.io/job-completion-index",),
        index_variables=("JOB_COMPLETION_INDEX",),
    ),
    "JobSet": JobKind(
        "jobset.x-k8s.io",
        "v1alpha2",
        "jobsets",
        installed_by="JobSet 0.8 or newer",
        index_labels=("batch.kubernetes.io/job-completion-index",),
        index_variables=("JOB_COMPLETION_INDEX",),
        uses_mpirun=True,
        child_jobs=("-w-0", "-lead-0", "-ps-0"),
        has_parameter_servers=True,
        preference=Preference("carries every program", 1),
    ),
    "TrainJob": JobKind(
        "trainer.kubeflow.org",
        "v1alpha1",
        "trainjobs",
        installed_by="Kubeflow Trainer 2.3 or newer",
        index_labels=("batch.kubernetes.io/job-completion-index",),
        index_variables=("JOB_COMPLETION_INDEX",),
        containers=("node",),
        child_jobs=("-node-0",),
        may_restart=True,
        preference=Preference("Kubeflow Trainer is installed", 2, in_a_queue=None),
    ),
}
_JOB_KINDS = Registry("scalecurve.job_kinds", "runner", JobKind, _BUILT_IN).loadable()


class Runner(StrEnum):
    """The kind of Kubernetes job that carries a trial."""

    mpi_job = "MPIJob"
    pytorch_job = "PyTorchJob"
    tf_job = "TFJob"
    job = "Job"
    job_set = "JobSet"
    train_job = "TrainJob"
    vars().update({name: name for name in _JOB_KINDS if name not in _BUILT_IN})  # of installed packages

    @property
    def job_kind(self) -> JobKind:
        return _JOB_KINDS[self]


AUTO = "auto"  # the value of spec.runner that leaves the choice to the operator
DEFAULT_RUNNER = Runner.job  # of a trial that names none, as of operators that did not choose
