"""What runs in every worker: a program, how it is spread, and the libraries that carry its collectives."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from scalecurve_api.model import Count, FilePath, Model
from scalecurve_api.programs.data import Data
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.options import Options

# No program can be started with a NUL in its arguments or its environment.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=256)]


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
    horovod = "horovod"


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


class Launcher(StrEnum):
    """How the processes of a trial are started on one machine."""

    torchrun = "torchrun"
    mpirun = "mpirun"
    processes = "processes"


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


class Updates(StrEnum):
    """When a parameter server changes its parameters: with every worker's gradient, or with each as it comes."""

    synchronous = "synchronous"
    asynchronous = "asynchronous"


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
