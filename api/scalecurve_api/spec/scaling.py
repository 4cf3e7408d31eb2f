"""Worker counts, the batch at each of them, and how workers are placed on nodes."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from scalecurve_api.model import Count, Model
from scalecurve_api.spec.pod_options import Nesting

Layout = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")]
Workers = Annotated[int, Field(ge=1, le=65536, strict=True)]


class Mode(StrEnum):
    """How the batch follows the worker count."""

    strong = "strong"
    weak = "weak"


class Batch(Model):
    """Batch sizes in samples: strong scaling keeps ``global``, weak scaling keeps ``perWorker``."""

    global_: Count | None = Field(
        default=None, alias="global", description="Samples in a step over all workers; strong scaling keeps it."
    )
    per_worker: Count | None = Field(
        default=None, description="Samples in a step on each worker; weak scaling keeps it."
    )


class Scaling(Model):
    """Worker counts, and what is held fixed along them."""

    modes: list[Mode] = Field(
        default=[Mode.strong],
        min_length=1,
        max_length=2,
        description="How the batch follows the worker count; each mode makes its own curves.",
    )
    workers: list[Workers] = Field(
        min_length=1, max_length=64, description="Worker counts; each is a point of every curve."
    )
    batch: Batch = Field(default=Batch(), description="Batch sizes, in samples.")
    baseline: Literal["auto"] | Workers = Field(
        default="auto", description="Worker count that speed-up is measured against; auto is the smallest."
    )


class Placement(Model):
    """How workers are placed on nodes."""

    workers_per_node: Workers | None = Field(default=None, description="Most workers on one node.")
    layouts: list[Layout] = Field(
        default=[],
        max_length=64,
        description="Nodes x workers on each node, such as 2x4; each must give one of the worker counts.",
    )
    pods_per_node: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=1, description="On a cluster: number of pods that carry the workers of one node."
    )
    nesting: Nesting = Field(
        default=Nesting.prefer,
        description="On a cluster: whether a larger worker count runs on the nodes of the smaller ones, and more.",
    )
