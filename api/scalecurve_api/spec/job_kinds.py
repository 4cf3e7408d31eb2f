"""The kinds of Kubernetes job that can carry a trial, and the facts about each that several parts need.

Adding one: a member of ``Runner`` here, its renderer and reader in ``scalecurve_operator.runners``, one line in that
package's ``RUNNERS``. Everything else (CRD, RBAC, doctor, capacity, rules, pod index) follows from the facts.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_TRAINING_OPERATOR = "the Kubeflow training operator 1.x"


@dataclass(frozen=True)
class JobKind:
    """Facts about one kind of job."""

    group: str
    version: str
    plural: str
    installed_by: str
    """what to install to get it, for people; empty for what every cluster has"""
    index_labels: tuple[str, ...]
    """labels (or annotations) of a pod that hold its index"""
    leader_label: tuple[str, str] | None = None
    """label and value of the pod that comes before index 0"""
    index_variables: tuple[str, ...] = ()
    """environment variables that tell a pod its index"""
    containers: tuple[str, ...] = ("worker",)
    """names of the containers that run the program"""
    launcher_pods: int = 0
    """pods that carry no worker"""
    uses_mpirun: bool = False
    has_parameter_servers: bool = False


class Runner(StrEnum):
    """The kind of Kubernetes job that carries a trial."""

    job_kind: JobKind

    def __new__(cls, value: str, job_kind: JobKind) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.job_kind = job_kind
        return member

    mpi_job = (
        "MPIJob",
        JobKind(
            "kubeflow.org",
            "v2beta1",
            "mpijobs",
            installed_by="mpi-operator 0.5 or newer",
            index_labels=(_REPLICA_INDEX,),
            containers=("worker", "launcher"),
            launcher_pods=1,
            uses_mpirun=True,
        ),
    )
    pytorch_job = (
        "PyTorchJob",
        JobKind(
            "kubeflow.org",
            "v1",
            "pytorchjobs",
            installed_by=_TRAINING_OPERATOR,
            index_labels=(_REPLICA_INDEX,),
            leader_label=(_REPLICA_TYPE, "master"),
            # Its RANK counts pods, not ranks.
            index_variables=("PET_NODE_RANK", "RANK"),
            containers=("pytorch",),
        ),
    )
    tf_job = (
        "TFJob",
        JobKind(
            "kubeflow.org",
            "v1",
            "tfjobs",
            installed_by=_TRAINING_OPERATOR,
            index_labels=(_REPLICA_INDEX,),
            containers=("tensorflow",),
            has_parameter_servers=True,
        ),
    )
    job = (
        "Job",
        JobKind(
            "batch",
            "v1",
            "jobs",
            installed_by="",
            index_labels=("batch.kubernetes.io/job-completion-index",),
            index_variables=("JOB_COMPLETION_INDEX",),
        ),
    )


DEFAULT_RUNNER = Runner.job
"""Every cluster has it."""
