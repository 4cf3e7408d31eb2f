"""Worker counts, the batch at each of them, and how workers are placed on nodes."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from scalecurve_api.model import Count, Described, Whole
from scalecurve_api.spec.pod_options import Nesting

Layout = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")]
Workers = Annotated[int, Field(ge=1, le=65536, strict=True)]


class Mode(StrEnum):
    """How the batch follows the worker count."""

    strong = "strong"
    weak = "weak"


class BatchLadder(Described):
    """Batches per worker, each ``factor`` times the one before, until one does not fit into memory."""

    from_: Count = Field(alias="from", description="Samples in a step on each worker, of the first batch.")
    factor: Whole = Field(default=2, ge=2, le=1024, description="How many times the batch before each batch is.")
    until: Literal["memory"] = "memory"
    """What ends the ladder: the first batch whose trial runs out of memory; larger ones are not run."""
    max_batches: Whole = Field(default=8, ge=2, le=16, description="Most batches, if memory does not end it before.")

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(self.from_ * self.factor**rung for rung in range(self.max_batches))


class Batch(Described):
    """Batch sizes in samples: strong scaling keeps ``global``, weak scaling keeps ``perWorker``."""

    global_: Count | None = Field(default=None, alias="global")
    """Samples in a step over all workers; strong scaling keeps it."""
    per_worker: Count | None = Field(default=None)
    """Samples in a step on each worker; weak scaling keeps it."""
    ladder: BatchLadder | None = None
    """In place of perWorker: batches per worker that are raised until memory is full; each is a curve."""


class Scaling(Described):
    """Worker counts, and what is held fixed along them."""

    modes: list[Mode] = Field(default=[Mode.strong], min_length=1, max_length=2)
    """How the batch follows the worker count; each mode makes its own curves."""
    workers: list[Workers] = Field(min_length=1, max_length=64)
    """Worker counts; each is a point of every curve."""
    batch: Batch = Field(default=Batch(), description="Batch sizes, in samples.")
    baseline: Literal["auto"] | Workers = "auto"
    """Worker count that speed-up is measured against; auto is the smallest."""


class Placement(Described):
    """How workers are placed on nodes."""

    workers_per_node: Workers | None = Field(default=None, description="Most workers on one node.")
    layouts: list[Layout] = Field(default=[], max_length=64)
    """Nodes x workers on each node, such as 2x4; each must give one of the worker counts."""
    pods_per_node: Whole = Field(default=1, ge=1, le=64)
    """On a cluster: number of pods that carry the workers of one node."""
    nesting: Nesting = Nesting.prefer
    """On a cluster: whether a larger worker count runs on the nodes of the smaller ones, and more."""
