"""Settings of program torch, beside its strategy: what a step does, and how a model begins."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, StrictBool

from scalecurve_api.model import Described, Real, Whole
from scalecurve_api.problem import Violation, unsupported
from scalecurve_api.programs.model_catalog import reads_tokens


class CommHook(StrEnum):
    """How DDP compresses gradients for the all-reduce; ``none`` sends them as they are."""

    none = "none"
    fp16 = "fp16"
    bf16 = "bf16"
    powersgd = "powersgd"
    top_k = "top-k"
    eight_bit = "eight-bit"
    one_bit = "one-bit"


HALF_HOOKS = Literal[CommHook.none, CommHook.fp16]
"""Of libraries that send half of a gradient's bits, or all of them."""


class Recomputation(StrEnum):
    """What the backward pass computes again instead of keeping it: nothing, the cheap part of a block, or all of it."""

    none = "none"
    selective = "selective"
    full = "full"


class BatchNormMode(StrEnum):
    """Running statistics of batch norm: rank 0's sent to all, each rank's own, or those of the whole global batch."""

    broadcast = "broadcast"
    local = "local"
    synchronized = "synchronized"


class TrainingOptions(Described):
    """Options that programs torch and horovod share; the same for every worker count."""

    channels_last: StrictBool = Field(default=False, description="Store images with the channels last.")
    compile: StrictBool = Field(default=False, description="Compile the model with torch.compile.")
    bucket_cap_mb: Real | None = Field(default=None, gt=0, le=100_000)
    """Size of the gradient buckets, in MiB."""
    gradient_accumulation: Whole = Field(default=1, ge=1, le=10_000)
    """Backward passes whose gradients are added up before an update."""
    deterministic: StrictBool = Field(default=False, description="Use deterministic kernels only.")
    comm_hook: CommHook = Field(default=CommHook.none, description="How gradients are compressed for the all-reduce.")
    batch_norm: BatchNormMode | None = None
    """Running statistics of batch norm; by default broadcast for ddp and zero1, local otherwise."""
    reshuffle: StrictBool = Field(default=True, description="Use another order of the data in every epoch.")
    label_smoothing: Real = Field(default=0.0, ge=0, lt=1)
    """Share of a label that is spread over all classes."""
    activation_checkpointing: Recomputation = Recomputation.none
    """Transformers: recompute each block in the backward pass, fully, or but for attention and every second product."""
    cudnn_benchmark: StrictBool | None = None
    """Let cuDNN search for its fastest convolutions; by default yes, unless deterministic or dp without keepThreads."""

    def recomputation_problem(self, model: str) -> Violation | None:
        """Report ``activationCheckpointing`` of a model that has no blocks to recompute."""
        if self.activation_checkpointing is Recomputation.none or reads_tokens(model) is not False:
            return None
        reason = "only blocks of transformers can be recomputed, since batch norm would update its statistics twice"
        return unsupported(f"with model {model}: {reason}", "none")


class TorchOptions(TrainingOptions):
    """Options of program torch; the same for every worker count."""

    gradient_as_bucket_view: StrictBool = False
    """DDP keeps gradients in the buckets that it sends, without a copy."""
    overlap: StrictBool = True
    """Strategy ddp: send gradients during the backward pass; false sends all of them after it, in one bucket."""
    static_graph: StrictBool = Field(default=False, description="Tell DDP that every step has the same graph.")
    fsdp_group_mb: Real = Field(default=0, ge=0, le=100_000)
    """Strategy fsdp: gather consecutive blocks together up to this many MiB; 0 gathers block by block."""
    shard: Whole = Field(default=0, ge=0, le=65_536)
    """Strategy fsdp: workers that share one copy of the model, and the copies are replicas (HSDP); 0 is all workers."""
    comm_hook_rank: Whole = Field(default=1, ge=1, le=1024)
    """Rank of the approximation by commHook powersgd."""
    comm_hook_density: Real = Field(default=0.01, gt=0, le=1)
    """Share of the gradients that commHook top-k sends."""
    keep_threads: StrictBool = False
    """Strategy dp: each GPU keeps its thread from step to step; torch starts new ones in every step."""


class Updates(StrEnum):
    """When a parameter server applies updates: once it has every worker's gradient, or with each gradient."""

    synchronous = "synchronous"
    asynchronous = "asynchronous"


class ServerCount(Described):
    """Strategy parameter-server: how many processes hold the parameters."""

    servers: Whole = Field(default=1, ge=1, le=256)
    """Processes that each hold a share of the parameters; they are not workers."""


class ParameterServerOptions(ServerCount):
    """Strategy parameter-server: who holds the parameters, and when they change."""

    updates: Updates = Field(default=Updates.asynchronous, description="When a server updates its parameters.")
    backup_workers: Whole = Field(default=0, ge=0, le=65536)
    """Synchronous updates: do not wait for this many of the slowest gradients of a step."""
    staleness_aware: StrictBool = False
    """Asynchronous updates: divide the learning rate by a gradient's staleness."""

    @property
    def asynchronous(self) -> bool:
        return self.updates is Updates.asynchronous
