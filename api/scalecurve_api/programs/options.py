"""Switches of the built-in torch program; Horovod's has some of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool

from scalecurve_api.model import Model, Real


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


class Options(Model):
    """Switches of the built-in torch program; the same for every worker count."""

    channels_last: StrictBool = False
    compile: StrictBool = False
    gradient_as_bucket_view: StrictBool = True
    static_graph: StrictBool = False
    bucket_cap_mb: Real | None = Field(default=None, gt=0, le=100_000, description="DDP bucket size in MiB")
    fsdp_group_mb: Real = Field(
        default=128, gt=0, le=100_000, description="strategy fsdp: MiB up to which blocks are gathered together"
    )
    gradient_accumulation: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    deterministic: StrictBool = False
    comm_hook: CommHook = Field(default=CommHook.none, description="strategy ddp: compress gradients on their way")
    comm_hook_rank: Annotated[int, Field(ge=1, le=1024, strict=True)] = Field(default=1, description="PowerSGD's rank")
    comm_hook_density: Real = Field(default=0.01, gt=0, le=1, description="share of the gradients that top-k sends")
    batch_norm: BatchNorm | None = Field(
        default=None, description="left out: broadcast for ddp and zero1, local for fsdp and parameter-server"
    )
    reshuffle: StrictBool = Field(default=True, description="another order of the data in every epoch (set_epoch)")
    keep_threads: StrictBool = Field(
        default=True, description="strategy dp: a GPU keeps its thread from step to step; false: anew in each, as torch"
    )
    label_smoothing: Real = Field(default=0.0, ge=0, lt=1, description="share of a label spread over all classes")
