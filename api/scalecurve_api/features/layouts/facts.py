"""What a rank records of its layout: bytes by dimension, and the comparison with one process, which is judged."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.record.fact_kind import EVERY, SHARED, CheckResult, FactKind
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_api.text import count, few

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


def _computes_the_same(trial: TrialSpec, ranks: Sequence[RankRecord]) -> CheckResult | None:
    """Losses and gradients of the layout are those of one process, within the stated tolerance, on every rank."""
    expected = trial.point.parallelism
    if expected is None or not trial.workload.built_in:
        return None
    for record in ranks:
        layout = LAYOUT.of(record)
        if layout is None or layout.sizes != expected.sizes:
            made = layout.spelled if layout is not None else "none"
            detail = f"the layout of rank {record.topology.rank} is {made}, expected {expected.spelled}"
            return False, detail
    if unknown := [record.topology.rank for record in ranks if EQUALITY.of(record) is None]:
        why = str(ranks[0].options.get("equality", "no comparison with one process"))
        return None, f"rank {few(unknown)}: {why}"
    pairs = [(record.topology.rank, compared) for record in ranks if (compared := EQUALITY.of(record)) is not None]
    for rank, compared in pairs:
        if (wrong := _wrong(compared)) is not None:
            return False, f"rank {rank}: {wrong}"
    steps = max(len(compared.losses) for _, compared in pairs)
    if not steps:
        return False, "no rank computed a loss"
    worst = max(pairs, key=lambda pair: pair[1].gradient_error)[1]
    detail = (
        f"losses of {count(steps, 'step')} and gradients equal one process's ({expected.spelled}): largest error of a"
    )
    detail += f" gradient {worst.gradient_error:.2g}, tolerance {worst.gradient_tolerance:g}"
    return True, detail


def _wrong(compared: Equality) -> str | None:
    pairs = zip(compared.losses, compared.reference, strict=False)
    if len(compared.losses) not in (0, len(compared.reference)):
        return f"{len(compared.losses)} losses, expected {len(compared.reference)}"
    for step, (loss, reference) in enumerate(pairs, 1):
        # Not <=, as no comparison holds for NaN.
        if not abs(loss - reference) <= compared.loss_tolerance * abs(reference):
            detail = f"the loss of step {step} is {loss:.6g}, that of one process {reference:.6g}"
            return f"{detail} (tolerance {compared.loss_tolerance:g}, relative)"
    if not compared.gradient_error <= compared.gradient_tolerance:
        detail = f"the gradient of {compared.parameter} differs from one process's by {compared.gradient_error:.3g}"
        return f"{detail} of its norm (tolerance {compared.gradient_tolerance:g})"
    return None


AXIS_TRAFFIC: FactKind[Sequence[AxisTraffic]] = FactKind("axisTraffic", list[AxisTraffic], ())
LAYOUT: FactKind[Degrees | None] = FactKind("layout", Degrees, None, SHARED)
"""Degrees of the mesh that was really made"""
EQUALITY: FactKind[Equality | None] = FactKind(
    "equality", Equality, None, EVERY, checks={InvalidReason.wrong_math.value: _computes_the_same}
)
PIPELINE: FactKind[PipelineTimes | None] = FactKind("pipeline", PipelineTimes, None)
"""Of the pipeline that the rank is part of"""
