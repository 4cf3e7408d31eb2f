"""``ScalingExperiment``: what the user wants measured. The same model validates YAML and generates the CRD.

Only what a single field can say about itself is checked here; rules over several fields are in ``rules``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

from scalebench_api.model import Model
from scalebench_api.pod_options import DnsName, Nesting, PodOptions, Results

AxisValue = StrictBool | StrictInt | StrictFloat | StrictStr
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Layout = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")]
Workers = Annotated[int, Field(ge=1, le=65536, strict=True)]
Count = Annotated[int, Field(ge=1, le=1 << 40, strict=True)]
Natural = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]
Real = Annotated[float, Field(strict=True)]
# No program can be started with a NUL in its arguments or its environment.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
FilePath = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=4096)]
Quantity = StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=64)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=256)]


class Mode(StrEnum):
    """How the batch follows the worker count."""

    strong = "strong"
    weak = "weak"


class Program(StrEnum):
    """The built-in training programs, or the user's own command."""

    torch = "torch"
    tensorflow = "tensorflow"
    horovod = "horovod"
    allreduce = "allreduce"
    custom = "custom"


class Strategy(StrEnum):
    """Ways to spread training over workers; which program knows which is in ``legality``."""

    single = "single"
    ddp = "ddp"
    dp = "dp"
    fsdp = "fsdp"
    zero1 = "zero1"
    one_device = "one-device"
    mirrored = "mirrored"
    multi_worker_mirrored = "multi-worker-mirrored"
    parameter_server = "parameter-server"


class Precision(StrEnum):
    """Arithmetic of the forward and backward pass; tf32 is fp32 storage with TF32 matrix units."""

    fp32 = "fp32"
    tf32 = "tf32"
    bf16 = "bf16"
    fp16 = "fp16"


class Device(StrEnum):
    """What one worker drives."""

    auto = "auto"
    gpu = "gpu"
    cpu = "cpu"


class Backend(StrEnum):
    """The collective library."""

    auto = "auto"
    nccl = "nccl"
    gloo = "gloo"
    mpi = "mpi"


class AllReduce(StrEnum):
    """The all-reduce algorithm asked of the collective library, or a pattern composed of its other collectives."""

    auto = "auto"
    ring = "ring"
    tree = "tree"
    recursive_doubling = "recursive-doubling"
    rabenseifner = "rabenseifner"
    parameter_server = "parameter-server"
    hierarchical = "hierarchical"


class CrossDeviceOps(StrEnum):
    """TensorFlow's cross-device reduction."""

    default = "default"
    nccl = "nccl"
    hierarchical_copy = "hierarchical-copy"
    reduction_to_one_device = "reduction-to-one-device"


class Communication(StrEnum):
    """TensorFlow's collective implementation."""

    auto = "auto"
    ring = "ring"
    nccl = "nccl"


class CommHook(StrEnum):
    """How DDP's gradients are made smaller on their way; ``none`` sends them as they are."""

    none = "none"
    fp16 = "fp16"
    bf16 = "bf16"
    powersgd = "powersgd"
    top_k = "top-k"
    eight_bit = "eight-bit"
    one_bit = "one-bit"


class BatchNorm(StrEnum):
    """Running statistics of batch norm: rank 0's sent to all, each rank's own, or of the whole global batch."""

    broadcast = "broadcast"
    local = "local"
    synchronized = "synchronized"


class Updates(StrEnum):
    """When a parameter server changes its parameters: with every worker's gradient, or with each as it comes."""

    synchronous = "synchronous"
    asynchronous = "asynchronous"


class Decay(StrEnum):
    """How the learning rate falls over the epochs of a training to accuracy."""

    constant = "constant"
    multi_step = "multi-step"
    cosine = "cosine"


class DataSource(StrEnum):
    """Where samples come from."""

    synthetic = "synthetic"
    digits = "digits"
    fashion_mnist = "fashion-mnist"
    cifar10 = "cifar10"
    image_folder = "image-folder"


class Launcher(StrEnum):
    """How the processes of a trial are started on one machine."""

    torchrun = "torchrun"
    mpirun = "mpirun"
    processes = "processes"


class Runner(StrEnum):
    """The kind of Kubernetes job that carries a trial."""

    mpi_job = "MPIJob"
    pytorch_job = "PyTorchJob"
    tf_job = "TFJob"
    job = "Job"


class Batch(Model):
    """Batch sizes in samples: strong scaling keeps ``global``, weak scaling keeps ``perWorker``."""

    global_: Count | None = Field(default=None, alias="global", description="samples a step over all workers")
    per_worker: Count | None = Field(default=None, description="samples a step for each worker")


class Scaling(Model):
    """The axis this project is about: worker counts, and what is held fixed along them."""

    modes: list[Mode] = Field(default=[Mode.strong], min_length=1, max_length=2)
    workers: list[Workers] = Field(min_length=1, max_length=64, description="worker counts, one point each")
    batch: Batch = Batch()
    baseline: Literal["auto"] | Workers = Field(
        default="auto", description="worker count that speed-up is measured against; auto is the smallest"
    )


class Placement(Model):
    """How workers are laid over nodes; recorded, never guessed."""

    workers_per_node: Workers | None = Field(default=None, description="at most so many workers on a node")
    layouts: list[Layout] = Field(
        default=[], max_length=64, description="nodes x workers a node, as 2x4; each must give a worker count"
    )
    pods_per_node: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=1, description="on a cluster, over how many pods the workers of a node are spread"
    )
    nesting: Nesting = Field(default=Nesting.prefer, description="on a cluster, keep a series on nested sets of nodes")


class Augmentation(StrEnum):
    """What training images go through; ``auto`` is standard where a mirrored image means the same, else none."""

    auto = "auto"
    none = "none"
    standard = "standard"


class Data(Model):
    """What a step consumes."""

    source: DataSource = DataSource.synthetic
    path: FilePath | None = Field(default=None, description="folder of a data set on disk")
    shape: list[Count] | None = Field(
        default=None, min_length=1, max_length=4, description="shape of one sample, as [3, 224, 224]"
    )
    classes: Annotated[int, Field(ge=2, le=1_000_000, strict=True)] | None = None
    augmentation: Augmentation = Field(
        default=Augmentation.auto, description="standard: crop at random and mirror training images"
    )
    cutout: Natural = Field(default=0, description="side in pixels of a square blotted out of each training image")
    instances: Annotated[int, Field(ge=1, le=1024, strict=True)] = Field(
        default=1, description="differently augmented copies of each sample in one batch, which grows so many times"
    )
    validation: Real | None = Field(
        default=None, gt=0, lt=1, description="image-folder without train and val: share of each class held out"
    )
    split_seed: Natural = Field(default=0, description="which images are held out")


class Trained(StrEnum):
    """Which parameters of a pretrained model change."""

    all = "all"
    head = "head"
    scratch = "scratch"


class Transfer(Model):
    """Start from trained parameters, with a new head for the classes of the data."""

    checkpoint: FilePath | None = Field(
        default=None, description="state dict of the same architecture, as measure.accuracy.checkpoints writes"
    )
    train: Trained = Field(
        default=Trained.all, description="head: everything else is frozen; scratch: the checkpoint is not used"
    )


class Optimizer(Model):
    """The update rule."""

    name: Literal["sgd", "adamw", "adagrad", "lars", "lamb"] = "sgd"
    learning_rate: Real = Field(default=0.05, gt=0, le=1000)
    momentum: Real = Field(default=0.9, ge=0, lt=1, description="of sgd and lars")
    weight_decay: Real = Field(default=0.0, ge=0, le=10)
    decay_norm: StrictBool = Field(default=True, description="weight decay also on biases and on norms' parameters")
    trust: Real = Field(default=0.001, gt=0, le=1, description="LARS's trust coefficient")
    scale_with_workers: StrictBool = Field(
        default=False, description="linear scaling: learningRate times the worker count"
    )
    warmup_epochs: Real = Field(
        default=0.0, ge=0, le=10_000, description="training to accuracy: rise from learningRate to the scaled one"
    )
    decay: Decay = Field(default=Decay.constant, description="training to accuracy: how the rate falls")
    milestones: list[Annotated[int, Field(ge=1, le=100_000, strict=True)]] = Field(
        default=[], max_length=20, description="epochs after which multi-step multiplies the rate by decayFactor"
    )
    decay_factor: Real = Field(default=0.1, gt=0, le=1)


class Options(Model):
    """Switches of the built-in torch program; the same for every worker count."""

    channels_last: StrictBool = False
    compile: StrictBool = False
    gradient_as_bucket_view: StrictBool = True
    static_graph: StrictBool = False
    bucket_cap_mb: Real | None = Field(default=None, gt=0, le=100_000, description="DDP bucket size in MiB")
    gradient_accumulation: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    deterministic: StrictBool = False
    comm_hook: CommHook = Field(default=CommHook.none, description="strategy ddp: compress gradients on their way")
    comm_hook_rank: Annotated[int, Field(ge=1, le=1024, strict=True)] = Field(default=1, description="PowerSGD's rank")
    comm_hook_density: Real = Field(default=0.01, gt=0, le=1, description="share of the gradients that top-k sends")
    batch_norm: BatchNorm | None = Field(
        default=None, description="left out: broadcast for ddp and zero1, local for fsdp and parameter-server"
    )
    reshuffle: StrictBool = Field(default=True, description="another order of the data in every epoch (set_epoch)")
    label_smoothing: Real = Field(default=0.0, ge=0, lt=1, description="share of a label spread over all classes")


class ParameterServer(Model):
    """Strategy parameter-server: who holds the parameters, and when they change."""

    servers: Annotated[int, Field(ge=1, le=256, strict=True)] = Field(
        default=1, description="processes that hold a share of the parameters each; they are not workers"
    )
    updates: Updates = Field(default=Updates.asynchronous, description="program torch has both")
    backup_workers: Annotated[int, Field(ge=0, le=65536, strict=True)] = Field(
        default=0, description="synchronous: so many of the slowest gradients of a step are not waited for"
    )
    staleness_aware: StrictBool = Field(
        default=False, description="asynchronous: divide the learning rate by a gradient's staleness"
    )


class Payload(StrEnum):
    """What the all-reduce microbenchmark sends: a ladder of sizes, or the gradients of a model."""

    sizes = "sizes"
    gradients = "gradients"
    buckets = "buckets"


class Sizes(Model):
    """Message sizes of the all-reduce microbenchmark, in bytes; nccl-tests' conventions."""

    payload: Payload = Field(
        default=Payload.sizes,
        description="from minBytes to maxBytes, or the gradients of workload.model: each tensor, or DDP's buckets",
    )

    min_bytes: Count = 8
    max_bytes: Count = 1 << 30
    factor: Annotated[int, Field(ge=2, le=1024, strict=True)] = 2
    iterations: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 20
    warmup: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 5
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


class Workload(Model):
    """What runs in every worker: a built-in program, or the user's own image and command."""

    program: Program = Program.torch
    strategy: Strategy | None = Field(default=None, description="left out: ddp, or the program's own")
    model: str = Field(default="resnet18", min_length=1, max_length=100)
    data: Data = Data()
    precision: Precision = Precision.fp32
    device: Device = Device.auto
    backend: Backend = Backend.auto
    all_reduce: AllReduce = AllReduce.auto
    cross_device_ops: CrossDeviceOps | None = None
    communication: Communication | None = None
    optimizer: Optimizer = Optimizer()
    options: Options = Options()
    transfer: Transfer = Transfer()
    parameter_server: ParameterServer = ParameterServer()
    sizes: Sizes = Sizes()
    launcher: Launcher | None = Field(default=None, description="left out: torchrun, or mpirun for backend mpi")
    image: str | None = Field(default=None, min_length=1, max_length=500)
    command: list[Text] | None = Field(default=None, min_length=1, max_length=1000)
    env: dict[Variable, Text] = Field(default={}, max_length=200)


class Quantization(Model):
    """After training: the model in integers of fewer and fewer bits, judged on the validation set."""

    bits: list[Annotated[int, Field(ge=2, le=16, strict=True)]] = Field(
        default=[8, 7, 6, 5, 4, 3, 2], min_length=1, max_length=15
    )
    calibration_batches: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=8, description="training batches that the ranges of activations are taken from"
    )


class Accuracy(Model):
    """Train to accuracy after timing: fresh parameters, an evaluation after every epoch."""

    epochs: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 10
    target: Real | None = Field(default=None, gt=0, le=1, description="stop and report the time to this")
    checkpoints: FilePath | None = Field(default=None, description="folder for the trained parameters of each trial")
    quantization: Quantization | None = None
    noise_scale: StrictBool = Field(default=False, description="measure the gradient noise scale while training")


class Measure(Model):
    """How long and how often each point is timed."""

    warmup_steps: Natural = Field(default=20, description="at least so many; then until step time is stable")
    max_warmup_steps: Natural = Field(default=500, description="give up waiting for a stable step time here")
    windows: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 5
    steps_per_window: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = 50
    epoch_samples: Count | None = Field(
        default=None,
        description="samples of an epoch: the warm-up is then one epoch, and each window another",
    )
    repetitions: Annotated[int, Field(ge=1, le=1000, strict=True)] = 3
    seed: Natural = 0
    exposed_communication: StrictBool = True
    accuracy: Accuracy | None = None
    max_foreign_load: Real = Field(
        default=0.25,
        ge=0,
        le=1,
        description="share of this trial's cores that other processes may take before it is Invalid; 1 is off",
    )


class Cost(Model):
    """Price of one worker for one hour."""

    per_worker_hour: Real = Field(ge=0, le=1_000_000)
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    dataset_samples: Count | None = Field(
        default=None,
        description="samples of one epoch, for time and cost of an epoch; else the data set's own",
    )
    epochs: Count | None = Field(default=None, description="epochs of the whole training, for total time and cost")


class Resources(Model):
    """For one worker; any extended resource by its name, as nvidia.com/gpu."""

    limits: dict[Annotated[str, Field(max_length=317)], Quantity] = Field(default={}, max_length=50)


class FailurePolicy(Model):
    """What happens after a trial that did not succeed."""

    retries: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        default=0, description="further attempts of a Failed trial"
    )
    retry_invalid: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        default=0, description="further attempts of an Invalid trial"
    )
    max_failed_trials: Natural = Field(
        default=3, description="the experiment ends as Failed when more trials than this have failed"
    )


class ExperimentSpec(Model):
    """The whole request; immutable once started, but for suspend and cancel."""

    scaling: Scaling
    placement: Placement = Placement()
    workload: Workload = Workload()
    matrix: dict[str, Annotated[list[AxisValue], Field(min_length=1, max_length=1000)]] = Field(
        default={}, max_length=16, description="further axes: field of the workload -> values"
    )
    exclude: list[dict[str, AxisValue]] = Field(
        default=[], max_length=1000, description="combinations to leave out; every named value must match"
    )
    measure: Measure = Measure()
    cost: Cost | None = None
    runner: Runner | None = None
    resources: Resources = Resources()
    failure_policy: FailurePolicy = FailurePolicy()
    deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000, strict=True)] = Field(
        default=3600, description="a trial that has not ended by then is Failed"
    )
    parallelism: Annotated[int, Field(ge=1, le=1000, strict=True)] = 1
    pool: Name = Field(default="default", description="on a cluster, experiments of one pool take turns")
    queue: DnsName | None = Field(default=None, description="Kueue's local queue that admits the jobs")
    pod: PodOptions = PodOptions()
    results: Results | None = None
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315_360_000, strict=True)] | None = Field(
        default=None, description="on a cluster, delete the experiment and its records so long after its end"
    )
    suspend: StrictBool = False
    cancel: StrictBool = False


class Metadata(Model):
    """The part of Kubernetes' object metadata that Scalebench reads; the rest passes by."""

    model_config = ConfigDict(extra="ignore")

    name: Name
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ScalingExperiment(Model):
    """One YAML in, one trustworthy scaling curve out."""

    api_version: Literal["scalebench.dev/v1alpha1"]
    kind: Literal["ScalingExperiment"]
    metadata: Metadata
    spec: ExperimentSpec
    status: dict[str, Any] | None = Field(default=None, description="written by the engine, ignored on input")
