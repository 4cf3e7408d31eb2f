"""Arithmetic of the forward and backward pass."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

import torch

from scalecurve_api.programs.workload import Precision
from scalecurve_worker.process.failure import WorkloadError

_AUTOCAST = {Precision.bf16: torch.bfloat16, Precision.fp16: torch.float16}


def set_arithmetic(precision: Precision, device: torch.device, deterministic: bool) -> None:
    """Settings of the whole process, the same for every worker count.

    TF32 is on for ``tf32`` and off otherwise, in matrix products and in cuDNN alike; torch's own defaults differ
    between the two. cuDNN's search for the fastest algorithm is on, unless results must repeat bit by bit.
    """
    if device.type != "cuda" and precision in (Precision.tf32, Precision.fp16):
        raise WorkloadError(f"workload.precision: {precision.value} is for GPUs; allowed on a CPU: fp32, bf16")
    tf32 = precision is Precision.tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = not deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """The context of the forward pass and the loss."""
    dtype = _AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def scaler_for(precision: Precision, device: torch.device) -> torch.amp.GradScaler | None:
    """Loss scaling, which fp16 needs and bf16 does not."""
    return torch.amp.GradScaler(device.type) if precision is Precision.fp16 else None
