"""What one rank writes at its end (``rank-<r>.json``); the steps themselves are in its journal."""

from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import Field

from scalecurve_api.model import Model

RANK_SCHEMA: Final = "scalecurve.dev/rank/v1alpha1"


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
    """Where a rank ran."""

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
    """How many steps were discarded, and the rule that ended the warm-up."""

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
    train_accuracy: float | None = Field(default=None, description="over the epoch's batches, as they were trained on")


class Picture(Model):
    """One training image, before and after augmentation: base64 of the bytes of ``shape`` (channels, height, width)."""

    label: int
    shape: list[int]
    original: str
    trained: str


class DatasetFacts(Model):
    """What a training to accuracy learnt from: items of each split, and of each class in the training split."""

    train: int
    val: int
    class_counts: list[int] = []
    class_names: list[str] = []
    pictures: list[Picture] = []


class NoiseScaleRow(Model):
    """The gradient noise scale over one epoch: S. McCandlish et al., arXiv:1812.06162, appendix A.

    Squared norms are means over ``steps`` of gradients of ``small_batch`` and ``large_batch`` samples; ``gradient2``
    and ``trace`` the unbiased |G|^2 and tr(Sigma) from them, and ``simple`` their ratio in samples with its interval of
    95 %, None where |G|^2 cannot be told from zero.
    """

    epoch: int
    steps: int
    small_batch: int
    large_batch: int
    small_norm2: float
    large_norm2: float
    gradient2: float
    trace: float
    simple: float | None = None
    simple_low: float | None = None
    simple_high: float | None = None


class QuantizedRow(Model):
    """The trained model in integers: ``stage`` names what is quantized beside the stages before it.

    ``error`` is the root mean square of the logits' error over that of the logits.
    """

    scheme: Literal["tensor", "channel"]
    stage: Literal["weights", "activations", "biases", "torch"]
    bits: int
    accuracy: float
    loss: float
    bytes: int
    error: float


class LayerHistogram(Model):
    """Values of one layer in bins of equal width from ``low`` to ``high``."""

    layer: str
    kind: Literal["weights", "activations"]
    low: float
    high: float
    counts: list[int]


class QuantizationFacts(Model):
    """Post-training quantization: B. Jacob et al., arXiv:1712.05877."""

    parameters: int
    float_bytes: int
    float_accuracy: float
    float_loss: float
    rows: list[QuantizedRow] = []
    histograms: list[LayerHistogram] = []


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
    messages: int = Field(default=1, description="all-reduces one after another: the gradients of a whole step")


class Traffic(Model):
    """Bytes of gradients and parameters that one rank sends in a step.

    ``payload`` is what the program hands over; ``wire`` what then leaves this rank by the bandwidth-optimal algorithm
    of each collective (ring: 2(n-1)/n of an all-reduce's payload, (n-1) times an all-gather's, (n-1)/n of a
    reduce-scatter's), or what was counted at the socket. ``plain_payload`` is the payload without compression.
    """

    payload_bytes: float
    wire_bytes: float
    plain_payload_bytes: float
    how: str = Field(description="how it was obtained")


class ServerCounts(Model):
    """What one parameter server counted over its life, warm-up included."""

    server: int
    parameters: int = Field(description="elements it holds")
    updates: int = Field(description="changes of its parameters")
    gradients: int = Field(description="gradients that came in")
    dropped: int = Field(default=0, description="of these, too late and thrown away")
    received_bytes: int
    sent_bytes: int
    staleness: dict[str, int] = Field(default={}, description="updates between fetch and use -> gradients")


class RankRecord(Model):
    """What one rank reports at its end."""

    schema_: Literal["scalecurve.dev/rank/v1alpha1"] = Field(default=RANK_SCHEMA, alias="schema")
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
    initial_checksum: str | None = Field(default=None, description="before the first step, where that is looked at")
    frozen_checksums: list[str] = Field(
        default=[], description="of what is frozen: before training, after the timed windows, after the training"
    )
    shard_elements: int | None = Field(default=None, description="parameters held here, where ranks hold shares")
    parameters: int | None = None
    traffic: Traffic | None = None
    servers: list[ServerCounts] = Field(default=[], description="on rank 0: the parameter servers")
    pushes: int | None = Field(default=None, description="gradients this rank sent to every parameter server")
    flops_per_sample: float | None = Field(default=None, description="of a training step; 1 MAC = 2 FLOPs")
    sample_unit: Literal["samples", "tokens"] = "samples"
    peak_flops: float | None = Field(default=None, description="of this device in this precision, dense, FLOP/s")
    exposed_method: str | None = None
    finite_loss: bool | None = None
    last_loss: float | None = None
    peak_memory_bytes: int | None = None
    foreign_load: float | None = Field(default=None, description="share of this rank's cores that other processes took")
    stolen_load: float | None = Field(default=None, description="share of them that the hypervisor gave to others")
    device_samples: DeviceSamples | None = None
    metrics_port: int | None = None
    evaluations: list[Evaluation] = []
    dataset: DatasetFacts | None = None
    noise_scale: list[NoiseScaleRow] = []
    quantization: QuantizationFacts | None = None
    allreduce: list[AllReduceRow] = []
    options: dict[str, Any] = Field(default={}, description="settings the program resolved for itself")
    started_ns: int
    first_step_ns: int | None = None
    ended_ns: int


class RankFailure(Model):
    """Why a rank failed, as it could still report; ``reason`` is a ``FailedReason``."""

    rank: int
    reason: str
    message: str
