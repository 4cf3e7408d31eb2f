"""What one rank writes at its end (``rank-<r>.json``); the steps themselves are in its journal."""

from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.record.fact_kind import Recorded
from scalecurve_api.record.proof import Proof
from scalecurve_api.record.sections import SectionTimes
from scalecurve_api.record.step_trace import StepTrace
from scalecurve_api.record.transport import Transport

RANK_SCHEMA: Final = "scalecurve.dev/rank/v1alpha1"


class WindowKind(StrEnum):
    """What was timed: the program, the program without its all-reduce, or without any wrapper (one worker).

    Bare steps are the program's with nothing measured in them but their time, and take turns with instrumented ones.
    """

    warmup = "warmup"
    train = "train"
    no_communication = "no-communication"
    plain = "plain"
    bare = "bare"
    instrumented = "instrumented"


class Window(Model):
    """A timed run of consecutive steps between two barriers, as one rank saw it.

    ``wall_ns`` runs from the opening barrier to this rank's own device synchronize, before the closing barrier.
    ``open_ns`` is Unix time carried forward by the monotonic clock.
    """

    index: Int64
    kind: WindowKind
    open_ns: Int64
    wall_ns: Int64
    first_step: Int64
    steps: Int64
    samples: Int64
    sequences: Int64 | None = Field(default=None, description="samples of the batch, where samples counts its tokens")
    energy_mj: Int64 | None = Field(default=None, description="what the device used, by its own counter")
    lead_ns: Int64 | None = Field(default=None, description="the step before the first timed one, in no window")
    lead_waited_ns: Int64 | None = Field(default=None, description="of it, how long its thread waited for a processor")
    loader_ns: Int64 | None = Field(default=None, description="waited for the data loader, of wall_ns")
    paused_ns: Int64 | None = Field(default=None, description="evaluation between its steps, which is not in wall_ns")
    pauses: Int64 | None = Field(default=None, description="how many evaluations these were")
    inputs: Int64 | None = Field(default=None, description="elements that the model's training passes read")
    backwards: Int64 | None = Field(default=None, description="calls of backward() on a loss")


class RankTopology(Model):
    """Where a rank ran."""

    rank: Int64
    local_rank: Int64
    host: Text
    pid: Int64
    pod: Text | None = None
    node: Text | None = None
    device: Text = Field(description="GPU UUID, or cpu:0,1 with the cores the process was allowed")
    device_name: Text
    cores: list[Int64] = []
    threads: Int64 | None = None


class DeviceSamples(Model):
    """NVML over the timed windows of one rank: power in W, clocks in MHz, temperature in degrees Celsius."""

    count: Int64
    power_w_mean: float | None = None
    sm_mhz_min: Int64 | None = None
    sm_mhz_mean: float | None = None
    temperature_c_max: Int64 | None = None
    throttle_reasons: list[Text] = Field(default=[], description="reasons that lower a number: thermal, hardware")
    power_capped: bool = False
    other_processes: Int64 = Field(default=0, description="processes of others on this device")
    utilization_mean: float | None = Field(default=None, description="share of the time with a kernel running")


class Usage(Model):
    """Share of a device, or of a rank's own cores, in use from the last entry's time to this one's."""

    until_s: float = Field(description="seconds since the first window opened")
    share: float


class Warmup(Model):
    """How many steps were discarded, and the rule that ended the warm-up."""

    steps: Int64
    rule: Text
    stable: bool


class Traffic(Model):
    """Bytes of gradients and parameters that one rank sends in a step.

    ``payload`` is what the program hands over; ``wire`` what then leaves this rank by the bandwidth-optimal algorithm
    of each collective (ring: 2(n-1)/n of an all-reduce's payload, (n-1) times an all-gather's, (n-1)/n of a
    reduce-scatter's), or what was counted at the socket. ``plain_payload`` is the payload without compression.
    """

    payload_bytes: float
    wire_bytes: float
    plain_payload_bytes: float
    how: Text = Field(description="how it was obtained")


class BatchSizes(Model):
    """Samples that the steps of one rank had."""

    least: Int64
    most: Int64
    mean: float
    most_common: float = Field(description="share of the steps that have the most common number")


class RankRecord(Recorded):
    """What one rank reports at its end."""

    schema_: Literal["scalecurve.dev/rank/v1alpha1"] = Field(default=RANK_SCHEMA, alias="schema")
    trial: Text
    world: Int64
    topology: RankTopology
    backend: Text | None = Field(default=None, description="the collective library really used")
    strategy: Text | None = Field(default=None, description="what wrapped the model really, by class name")
    versions: dict[Text, Text] = {}
    environment: dict[Text, Text] = {}
    windows: list[Window] = []
    warmup: Warmup | None = None
    parameter_checksum: Text | None = None
    initial_checksum: Text | None = Field(default=None, description="before the first step, where that is checked")
    frozen_checksums: list[Text] = Field(
        default=[], description="of what is frozen: before training, after the timed windows, after the training"
    )
    shard_elements: Int64 | None = Field(default=None, description="parameters held here, where ranks hold shares")
    parameters: Int64 | None = None
    trained_parameters: Int64 | None = Field(default=None, description="of them, those that require a gradient")
    traffic: Traffic | None = None
    flops_per_sample: float | None = Field(default=None, description="of a training step; 1 MAC = 2 FLOPs")
    flops_spread: list[float] = Field(default=[], description="least and most of a counted step, in passes alone")
    hardware_flops_per_sample: float | None = Field(default=None, description="with what is recomputed")
    sample_unit: Literal["samples", "tokens"] = "samples"
    peak_flops: float | None = Field(default=None, description="of this device in this precision, dense, FLOP/s")
    exposed_method: Text | None = None
    exposed_share: float | None = Field(default=None, description="of a step, in which only communication ran")
    transport: Transport | None = Field(default=None, description="what carried the collectives, by their library")
    sections: SectionTimes | None = Field(default=None, description="of untimed steps after the last window")
    trace: StepTrace | None = Field(default=None, description="of steps under torch's profiler, with measure.trace")
    batch_sizes: BatchSizes | None = None
    printed_rate: float | None = Field(
        default=None, description="over the rate by the steps and times of the lines that it was printed in"
    )
    finite_loss: bool | None = None
    last_loss: float | None = None
    peak_memory_bytes: Int64 | None = None
    foreign_load: float | None = Field(default=None, description="share of this rank's cores that other processes took")
    own_load: float | None = Field(default=None, description="share of its cores that this rank itself used")
    stolen_load: float | None = Field(default=None, description="share of them that the hypervisor gave to others")
    device_samples: DeviceSamples | None = None
    usage: list[Usage] = Field(default=[], description="over the windows: of the GPU, or of this rank's cores")
    metrics_port: Int64 | None = None
    proof: Proof | None = Field(default=None, description="of programs that are not built in")
    options: dict[Text, Any] = Field(default={}, description="settings the program resolved for itself")
    started_ns: Int64
    first_step_ns: Int64 | None = None
    ended_ns: Int64
    kernel_ns: Int64 | None = Field(default=None, description="from the start to the end by the kernel, not this clock")


class RankFailure(Model):
    """Why a rank failed, as it could still report; ``reason`` is a ``FailedReason``."""

    rank: Int64
    reason: Text
    message: Text
