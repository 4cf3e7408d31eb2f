"""What a rank records of its layout: bytes by dimension, and the comparison with one process."""

from typing import Annotated

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text

_Positive = Annotated[int, Field(ge=1, lt=1 << 63)]


class AxisTraffic(Model):
    """What one rank handed to the collectives of one kind over one dimension of a layout, in one step."""

    axis: Text = Field(description="dimensions that the ranks differ in, as tensor or shard x context")
    kind: Text
    ranks: Int64 = Field(description="ranks that take part")
    calls: Int64
    payload_bytes: Int64
    wire_bytes: float = Field(description="what then leaves this rank, as in Traffic")


class Equality(Model):
    """A layout's training against that of one process: a few steps on the same samples, before the timed windows.

    ``gradient_error`` is the largest of all parameters, in the first step: the norm of the difference over the norm of
    the gradient, to which a thousandth of the complete gradient's norm is added. ``losses`` are empty on ranks that
    compute none.
    """

    losses: list[float]
    reference: list[float]
    loss_tolerance: float = Field(description="relative")
    gradient_error: float
    gradient_tolerance: float
    parameter: Text = Field(description="the parameter with that error")
    parameters: Int64 = Field(description="parameters whose gradients were compared on this rank")
    how: Text


class PipelineTimes(Model):
    """What a pipeline's workers did in untimed steps after the last window, in seconds a step (medians over steps).

    A worker's own time is that of its forward and backward passes and of the loss, without sending and waiting. Each
    step starts at a barrier; ``span_s`` is until the last worker has ended its passes.
    """

    schedule: Text
    workers: _Positive = Field(description="workers of the pipeline")
    stages_per_worker: _Positive = Field(default=1, description="stages on each of them")
    micro_batches: _Positive
    steps: Int64 = Field(description="steps that were observed")
    span_s: float = Field(ge=0)
    own_s: list[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="own time of each worker, from the first stage on"
    )
    bubble: float = Field(ge=-1, le=1, description="share of the workers' time in a step that is not their own")

    @property
    def expected_bubble(self) -> float:
        """Of equal stages that send in no time: (p-1)/(m+p-1), with m micro-batches for each stage of a worker."""
        waits = self.workers - 1
        return waits / (self.micro_batches * self.stages_per_worker + waits)

    @property
    def uneven_bubble(self) -> float:
        """The same for stages that take what these did: the slowest has no pause once the pipeline is full."""
        slowest, total = max(self.own_s), sum(self.own_s)
        span = slowest + (total - slowest) / (self.micro_batches * self.stages_per_worker)
        return 1 - total / self.workers / span if span > 0 else 0.0

    @property
    def slowest(self) -> int:
        """Place in the pipeline of the worker with the most own time."""
        return self.own_s.index(max(self.own_s))
