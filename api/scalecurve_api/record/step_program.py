"""The step that a trial would run, as one rank's worker recorded it without a device and without the other ranks.

``work`` is what the rank computes, in order, cut wherever an exchange begins or is waited for; ``exchanges`` are its
collectives in the order in which they are called. Both streams run in their own order; ``waits`` and ``after`` are all
that ties them together.
"""

from typing import Final, Literal

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text

PROGRAM_SCHEMA: Final = "scalecurve.dev/step-program/v1alpha1"
Kind = Literal["all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all", "point-to-point"]
Phase = Literal["forward", "backward", "optimizer"]


class ComputeSegment(Model):
    """Kernels that run one after another."""

    phase: Phase
    flops: float = Field(description="of matrix products and convolutions; a multiply-add is two")
    moved_bytes: float = Field(description="what the kernels read and write")
    kernels: Int64
    waits: list[Int64] = Field(default=[], description="indices of exchanges whose result it reads")


class Exchange(Model):
    """One collective; ``bytes`` is the size of the full vector: what is reduced, or what all shares add up to."""

    kind: Kind
    bytes: Int64
    ranks: Int64
    axis: Text = Field(description="dimension of the mesh, or data where there is no other")
    nodes: Int64 = Field(default=1, description="nodes that the ranks are on")
    after: Int64 = Field(default=-1, description="index of the last work that it needs; -1: the begin of the step")


class StepMemory(Model):
    """Bytes that are allocated at the highest point of a step, and what of them is the training's state."""

    peak: Int64
    parameters: Int64
    gradients: Int64
    optimizer: Int64

    @property
    def rest(self) -> int:
        """Activations, buckets, and what is gathered or copied."""
        return max(0, self.peak - self.parameters - self.gradients - self.optimizer)


class StepProgram(Model):
    """One step of rank 0."""

    schema_: Literal["scalecurve.dev/step-program/v1alpha1"] = Field(default=PROGRAM_SCHEMA, alias="schema")
    strategy: Text
    workers: Int64
    torch: Text
    parameters: Int64 = Field(description="elements of the model, over all shares")
    work: list[ComputeSegment]
    exchanges: list[Exchange]
    memory: StepMemory

    @property
    def flops(self) -> float:
        return sum(each.flops for each in self.work)

    @property
    def moved_bytes(self) -> float:
        return sum(each.moved_bytes for each in self.work)

    def count_exchanged_bytes(self, *kinds: str) -> int:
        """Bytes of the exchanges of these kinds, or of all."""
        return sum(each.bytes for each in self.exchanges if not kinds or each.kind in kinds)
