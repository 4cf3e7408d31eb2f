"""Settings of an experiment's pods: where they may run, and what else they need.

They apply on Kubernetes; on one machine they are ignored.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StringConstraints

from scalecurve_api.model import Described, Model

DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
LabelKey = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=317)
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Bytes = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,11}(k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=16)]
MountPath = Annotated[str, StringConstraints(pattern=r"^/[^\x00:]*$", max_length=1024)]

MAX_NODES = 100
"""Nodes of a trial that its status lists, and so the most that a series can keep to."""


class Nesting(StrEnum):
    """Whether a series keeps to nested sets of nodes, so that a larger count adds nodes and replaces none."""

    require = "require"
    prefer = "prefer"
    off = "off"


class Toleration(Described):
    """A Kubernetes toleration."""

    key: Annotated[str, Field(max_length=317)] | None = Field(default=None, description="Key of the taint.")
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="How the taint's value is compared.")
    value: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint."""
    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """Seconds for which a NoExecute taint is tolerated."""


class ClaimMount(Model):
    """A PersistentVolumeClaim of the experiment's namespace, such as a data set's."""

    claim: DnsName = Field(description="Name of the claim.")
    path: MountPath = Field(description="Path at which it is mounted.")
    read_only: StrictBool = Field(default=True, description="Mount it read-only.")


class PodOptions(Described):
    """Set on every pod of every trial."""

    node_selector: dict[LabelKey, LabelValue] = Field(default={}, max_length=32)
    """Labels that a node must have."""
    tolerations: list[Toleration] = Field(default=[], max_length=32, description="Taints that the pods tolerate.")
    labels: dict[LabelKey, LabelValue] = Field(default={}, max_length=32, description="Further labels of the pods.")
    annotations: dict[LabelKey, Annotated[str, Field(max_length=4096)]] = Field(default={}, max_length=32)
    """Further annotations of the pods."""
    job_labels: dict[LabelKey, LabelValue] = Field(default={}, max_length=32)
    """Further labels of the job object, such as a queue's priority class."""
    job_annotations: dict[LabelKey, Annotated[str, Field(max_length=4096)]] = Field(default={}, max_length=32)
    """Further annotations of the job object."""
    service_account_name: DnsName | None = Field(default=None, description="Service account of the pods.")
    priority_class_name: DnsName | None = Field(default=None, description="Priority class of the pods.")
    scheduler_name: DnsName | None = Field(default=None, description="Scheduler of the pods.")
    runtime_class_name: DnsName | None = Field(default=None, description="Runtime class of the pods.")
    image_pull_secrets: list[DnsName] = Field(default=[], max_length=8, description="Secrets for pulling the image.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled."""
    host_network: StrictBool = Field(default=False, description="Use the node's network.")
    lock_memory: StrictBool = Field(default=False)
    """Add the capability IPC_LOCK, which RDMA needs to pin memory."""
    shared_memory: Bytes | None = None
    """Size of /dev/shm, which is held in memory; the pod's memory limit by default, or as much as the node has."""
    scratch: Bytes = Field(
        default="32Gi", description="Size of /tmp, on the node's disk; a pod that exceeds it is evicted."
    )
    writable_root: StrictBool = False
    """Let the program write to all of its image's file system, and not only to /tmp, /dev/shm and claims."""
    claims: list[ClaimMount] = Field(default=[], max_length=16)
    """Volume claims to mount, such as a data set's."""
    platform_user: StrictBool = False
    """Set no user and group ID, so that the platform assigns them (OpenShift) or the image's own user runs."""
    template: dict[str, Any] = Field(default={}, max_length=2)
    """Strategic merge patch of every pod, with metadata and spec; container worker is the one that runs the program."""


class Results(Model):
    """Where complete records go, besides the ConfigMaps, which hold what fits."""

    claim: DnsName = Field(description="A PersistentVolumeClaim that every pod of a trial can mount.")
    path: MountPath = Field(default="/results", description="Path at which it is mounted in the pods.")
