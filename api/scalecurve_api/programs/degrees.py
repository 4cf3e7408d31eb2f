"""Degrees of parallelism: how many workers each dimension has at a point.

Workers that differ in ``replicate``, ``shard`` or ``expert`` read different samples; the workers that share samples are
a data-parallel group of ``tensor * pipeline * context`` workers.
"""

from collections.abc import Iterator
from enum import StrEnum
from math import prod
from typing import Protocol

from pydantic import Field

from scalecurve_api.model import Model
from scalecurve_api.problem import Violation


class Dimension(StrEnum):
    """What the workers of one dimension share out; the order is from the outermost to the innermost."""

    pipeline = "pipeline"
    replicate = "replicate"
    expert = "expert"
    shard = "shard"
    context = "context"
    tensor = "tensor"


DATA = (Dimension.replicate, Dimension.expert, Dimension.shard)
"""Dimensions whose workers read different samples."""


class Degrees(Model):
    """The degrees at one point, whose product is its worker count."""

    replicate: int = Field(default=1, ge=1, description="Copies of the model, each with its own samples.")
    shard: int = Field(default=1, ge=1, description="Workers that hold one copy's state in shards.")
    tensor: int = Field(default=1, ge=1, description="Workers that compute each layer together.")
    pipeline: int = Field(default=1, ge=1, description="Workers that hold the layers one after another.")
    context: int = Field(default=1, ge=1, description="Workers that share each sequence.")
    expert: int = Field(default=1, ge=1, description="Workers that hold the experts of each layer.")
    order: list[Dimension] = Field(default=list(Dimension), description="Dimensions from outermost to innermost.")
    inside_node: list[Dimension] = Field(default=[], description="Dimensions whose workers are all on one node.")
    group_batch: int | None = Field(default=None, description="Samples in a step of each data-parallel group.")
    micro_batches: int = Field(default=1, ge=1, description="Parts of the batch that pass through a pipeline.")

    @property
    def workers(self) -> int:
        return prod(self.sizes.values())

    @property
    def data(self) -> int:
        """Number of data-parallel groups."""
        return self.replicate * self.shard * self.expert

    @property
    def group(self) -> int:
        """Workers that share the samples of one data-parallel group."""
        return self.tensor * self.pipeline * self.context

    @property
    def sizes(self) -> dict[Dimension, int]:
        """Degree of every dimension, from outermost to innermost."""
        return {dimension: getattr(self, dimension.value) for dimension in self.order}

    @property
    def spelled(self) -> str:
        """Degrees above 1, such as ``tensor=2 pipeline=2``; ``one worker`` where there is none."""
        return " ".join(f"{name.value}={size}" for name, size in self.sizes.items() if size > 1) or "one worker"

    def data_rank(self, rank: int) -> int:
        """The data-parallel group of a rank, from 0."""
        place, group = self.coordinates(rank), 0
        for dimension in DATA:
            group = group * self.sizes[dimension] + place[dimension]
        return group

    def coordinates(self, rank: int) -> dict[Dimension, int]:
        """Place of a rank in every dimension."""
        place: dict[Dimension, int] = {}
        for dimension, size in reversed(self.sizes.items()):
            rank, place[dimension] = divmod(rank, size)
        return place


class StatedLayout(Protocol):
    """What an experiment states of the division of its workers into dimensions."""

    @property
    def schedule(self) -> StrEnum:
        """Return the order of a pipeline's passes."""

    @property
    def micro_batches(self) -> int | None:
        """Return the stated parts of each batch; None if they follow from the degrees."""

    def degrees(self, workers: int, workers_per_node: int | None = None, batch: int | None = None) -> Degrees | None:
        """Return the degrees at a worker count; None if no integers give that count."""

    def problems(self, workers: int) -> Iterator[tuple[str, Violation]]:
        """Name the fields that are wrong at a worker count, whatever is trained, and why."""

    def live_micro_batches(self, stages: int, parts: int) -> int:
        """Count the micro-batches of which a pipeline's first stage holds activations at once."""
