"""The field ``workload.parallelism``: the degrees as an experiment states them, and what follows from them at a point.

The product of the six degrees is the number of workers, so one of them follows from the others. The global batch
follows from the worker count alone, in both modes, so layouts of one worker count train on equal batches and can be
compared.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import prod
from typing import Annotated, Literal

from pydantic import Field

from scalecurve_api.model import Described, Whole
from scalecurve_api.problem import Violation, expected, forbidden
from scalecurve_api.programs.degrees import Degrees, Dimension


class PipelineSchedule(StrEnum):
    """The order of a pipeline's forward and backward passes."""

    gpipe = "gpipe"
    one_f_one_b = "1f1b"
    interleaved = "interleaved"


Degree = Literal["auto"] | Annotated[int, Field(ge=1, le=65536, strict=True)]
AUTO: Literal["auto"] = "auto"
VIRTUAL = 2
"""Stages of each worker under the interleaved schedule."""


class Parallelism(Described):
    """Workers in each dimension of parallelism; their product is the worker count, and one of them is auto."""

    replicate: Degree = AUTO
    """Copies of the model that read different samples and average gradients; auto: what the others leave."""
    shard: Degree = 1
    """Workers that hold shards of parameters, gradients and optimizer state, and read different samples (FSDP)."""
    tensor: Degree = 1
    """Workers that compute each layer of a transformer together, with sequence parallelism between its halves."""
    pipeline: Degree = 1
    """Workers that hold the layers one after another."""
    context: Degree = 1
    """Workers that share each sequence."""
    expert: Degree = 1
    """Workers that hold the experts of each layer, and read different samples."""
    schedule: PipelineSchedule = PipelineSchedule.one_f_one_b
    """Order of a pipeline's passes."""
    micro_batches: Annotated[Whole, Field(ge=1, le=10_000)] | None = None
    """Parts that a pipeline cuts each batch into; by default twice its stages, or what divides the batch below that."""
    innermost: Dimension = Dimension.tensor
    """The dimension of neighboring ranks, which stays inside a node where its degree fits there."""

    @property
    def requested(self) -> dict[Dimension, Literal["auto"] | int]:
        """Degrees as they are in the experiment."""
        return {dimension: getattr(self, dimension.value) for dimension in Dimension}

    @property
    def order(self) -> list[Dimension]:
        """Dimensions from the outermost to the innermost."""
        return [*(each for each in Dimension if each is not self.innermost), self.innermost]

    @property
    def stages_per_worker(self) -> int:
        return VIRTUAL if self.schedule is PipelineSchedule.interleaved else 1

    def degrees(self, workers: int, workers_per_node: int | None = None, batch: int | None = None) -> Degrees | None:
        """The degrees at a worker count, with the global ``batch`` cut up; None where no integers give that count."""
        fixed: dict[str, int] = {name.value: size for name, size in self.requested.items() if isinstance(size, int)}
        derived = [name.value for name in self.requested if name.value not in fixed]
        product = prod(fixed.values())
        if len(derived) > 1 or workers % product or (not derived and product != workers):
            return None
        sizes = {**fixed, **dict.fromkeys(derived, workers // product)}
        made = Degrees.model_validate({**sizes, "order": self.order})
        group = batch // made.data if batch is not None and batch % made.data == 0 else None
        parts = self._parts(made.pipeline, group)
        inside = _inside(made.sizes, workers_per_node or workers)
        return made.model_copy(update={"group_batch": group, "micro_batches": parts, "inside_node": inside})

    def _product_problem(self, workers: int) -> tuple[Dimension, Violation] | None:
        """Report the field that is wrong if the degrees do not give this worker count."""
        derived = [name for name, size in self.requested.items() if size == AUTO]
        if len(derived) > 1:
            names = " and ".join(name.value for name in derived)
            return derived[-1], expected(f"an integer: only one dimension may be auto, not {names}")
        if self.degrees(workers) is not None:
            return None
        fixed = {name: size for name, size in self.requested.items() if isinstance(size, int) and size > 1}
        product = " x ".join(f"{name.value} {size}" for name, size in fixed.items()) or "1"
        got = f"; got {product} = {prod(fixed.values())}" if len(fixed) > 1 else ""
        largest = max(fixed, key=lambda name: fixed[name], default=Dimension.replicate)
        if derived:
            divides = f"degrees whose product divides {workers}, the workers of a point{got}"
            return largest, expected(divides)
        gives = f"degrees whose product is {workers}, the workers of a point, or one auto{got}"
        return largest, expected(gives)

    def problems(self, workers: int) -> Iterator[tuple[str, Violation]]:
        """Name the fields that are wrong at a worker count, whatever is trained, and why."""
        if (wrong := self._product_problem(workers)) is not None:
            dimension, violation = wrong
            yield dimension.value, violation
            return
        degrees = self.degrees(workers)
        assert degrees is not None
        if degrees.pipeline == 1 and self.micro_batches is not None:
            yield "microBatches", forbidden("without a pipeline options.gradientAccumulation divides the batch")
        parts = self.micro_batches or degrees.micro_batches
        if self.schedule is PipelineSchedule.interleaved and parts % degrees.pipeline:
            multiple = f"a multiple of {degrees.pipeline}, the stages, for schedule interleaved"
            yield "microBatches", expected(multiple)

    def live_micro_batches(self, stages: int, parts: int) -> int:
        return parts if self.schedule is PipelineSchedule.gpipe else min(parts, stages)

    def _parts(self, stages: int, group_batch: int | None) -> int:
        if stages == 1:
            return self.micro_batches or 1
        if self.micro_batches is not None or group_batch is None:
            return self.micro_batches or 2 * stages
        return next(parts for parts in range(min(2 * stages, group_batch), 0, -1) if group_batch % parts == 0)


def _inside(sizes: Mapping[Dimension, int], workers_per_node: int) -> list[Dimension]:
    """Dimensions above 1 whose groups lie within a node, where ranks fill the nodes one after another."""
    inside, stride = [], 1
    for dimension, size in reversed(list(sizes.items())):
        if size > 1 and workers_per_node % (stride * size) == 0:
            inside.append(dimension)
        stride *= size
    return inside[::-1]
