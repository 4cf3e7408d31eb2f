"""What an experiment asks of the pods that carry it: where they may run, and what else they need.

Everything here is for engines on Kubernetes; on one machine it is read and ignored.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from scalecurve_api.model import Model

DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
LabelKey = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=317)
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Bytes = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,11}(k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=16)]
MountPath = Annotated[str, StringConstraints(pattern=r"^/[^\x00:]*$", max_length=1024)]


class Nesting(StrEnum):
    """How a series keeps to nested sets of nodes, so that a larger count adds nodes and swaps none."""

    require = "require"
    prefer = "prefer"
    off = "off"


class Toleration(Model):
    """Kubernetes' own."""

    key: Annotated[str, Field(max_length=317)] | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Annotated[str, Field(max_length=63)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None


class ClaimMount(Model):
    """A PersistentVolumeClaim of the experiment's namespace, such as a data set's."""

    claim: DnsName
    path: MountPath
    read_only: StrictBool = True


class PodOptions(Model):
    """Set on every pod of every trial."""

    node_selector: dict[LabelKey, LabelValue] = Field(default={}, max_length=32)
    tolerations: list[Toleration] = Field(default=[], max_length=32)
    labels: dict[LabelKey, LabelValue] = Field(default={}, max_length=32)
    annotations: dict[LabelKey, Annotated[str, Field(max_length=4096)]] = Field(default={}, max_length=32)
    service_account_name: DnsName | None = None
    priority_class_name: DnsName | None = None
    scheduler_name: DnsName | None = None
    runtime_class_name: DnsName | None = None
    image_pull_secrets: list[DnsName] = Field(default=[], max_length=8)
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    host_network: StrictBool = False
    lock_memory: StrictBool = Field(default=False, description="add IPC_LOCK, which RDMA needs to pin memory")
    shared_memory: Bytes | None = Field(
        default=None, description="size of /dev/shm, held in memory; left out: as much as the node has"
    )
    claims: list[ClaimMount] = Field(default=[], max_length=16)


class Results(Model):
    """Where whole records go besides the ConfigMaps, which hold what fits."""

    claim: DnsName = Field(description="a PersistentVolumeClaim that every pod of a trial can mount")
    path: MountPath = Field(default="/results", description="where it is mounted in the pods")
