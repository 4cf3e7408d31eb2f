"""What one rank writes at its end (``rank-<r>.json``); the steps themselves are in its journal."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import Field

from scalebench_api.model import Model

RANK_SCHEMA: Final = "scalebench.dev/rank/v1alpha1"


class WindowKind(StrEnum):
    """What was timed: the program, the program without its all-reduce, or without any wrapper (one worker)."""

    warmup = "warmup"
    train = "train"
    no_communication = "no-communication"
    plain = "plain"


class Window(Model):
    """A timed run of consecutive steps between two barriers, as one rank saw it.

    ``wall_ns`` runs from the opening barrier to this rank's own device synchronize, before the closing barrier.
    ``open_ns`` is Unix time carried forward by the monotonic clock.
    """

    index: int
    kind: WindowKind
    open_ns: int
    wall_ns: int
    first_step: int
    steps: int
    samples: int
    energy_mj: int | None = Field(default=None, description="what the device used, by its own counter")


class RankTopology(Model):
    """Where a rank really ran."""

    rank: int
    local_rank: int
    host: str
    pid: int
    pod: str | None = None
    node: str | None = None
    device: str = Field(description="GPU UUID, or cpu:0,1 with the cores the process was allowed")
    device_name: str
    cores: list[int] = []
    threads: int | None = None


class DeviceSamples(Model):
    """NVML over the timed windows of one rank: power in W, clocks in MHz, temperature in degrees Celsius."""

    count: int
    power_w_mean: float | None = None
    sm_mhz_min: int | None = None
    sm_mhz_mean: float | None = None
    temperature_c_max: int | None = None
    throttle_reasons: list[str] = Field(default=[], description="reasons that lower a number: thermal, hardware")
    power_capped: bool = False
    other_processes: int = Field(default=0, description="processes of others on this device")


class Warmup(Model):
    """How many steps were thrown away, and by which rule they were enough."""

    steps: int
    rule: str
    stable: bool


class Evaluation(Model):
    """One row of ``evals.parquet``: ``wall_s`` is training time so far, evaluation left out."""

    epoch: int
    step: int
    wall_s: float
    train_loss: float
    loss: float
    accuracy: float


class AllReduceRow(Model):
    """One message size of the microbenchmark, in nccl-tests' conventions.

    Times are of the slowest rank, in microseconds; ``algbw`` = bytes/time and ``busbw`` = algbw*2(n-1)/n in GB/s
    (1 GB = 1e9 bytes), from the median.
    """

    bytes: int
    in_place: bool
    iterations: int
    time_us_median: float
    time_us_min: float
    time_us_p95: float
    algbw: float
    busbw: float
    errors: int = Field(description="elements that differ from the sum worked out by hand")


class RankRecord(Model):
    """All that one rank knows when it ends."""

    schema_: Literal["scalebench.dev/rank/v1alpha1"] = Field(default=RANK_SCHEMA, alias="schema")
    trial: str
    world: int
    topology: RankTopology
    backend: str | None = Field(default=None, description="the collective library really used")
    strategy: str | None = Field(default=None, description="what wrapped the model really, by class name")
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}
    windows: list[Window] = []
    warmup: Warmup | None = None
    parameter_checksum: str | None = None
    parameters: int | None = None
    flops_per_sample: float | None = Field(default=None, description="of a training step; 1 MAC = 2 FLOPs")
    sample_unit: Literal["samples", "tokens"] = "samples"
    peak_flops: float | None = Field(default=None, description="of this device in this precision, dense, FLOP/s")
    exposed_method: str | None = None
    finite_loss: bool | None = None
    last_loss: float | None = None
    peak_memory_bytes: int | None = None
    foreign_load: float | None = Field(default=None, description="share of this rank's cores that others took")
    device_samples: DeviceSamples | None = None
    metrics_port: int | None = None
    evaluations: list[Evaluation] = []
    allreduce: list[AllReduceRow] = []
    options: dict[str, Any] = Field(default={}, description="settings the program resolved for itself")
    started_ns: int
    first_step_ns: int | None = None
    ended_ns: int


class RankFailure(Model):
    """What a rank could still say before it ended badly; ``reason`` is a ``FailedReason``."""

    rank: int
    reason: str
    message: str
