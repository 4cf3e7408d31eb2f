"""A rank's device, the software on it, and its arithmetic."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from scalecurve_api.programs.torch_options import TrainingOptions
from scalecurve_api.programs.workload import DeviceType, Precision
from scalecurve_api.record.rank import RankTopology
from scalecurve_worker.monitor.nvml import driver_version
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.startup import shares_of_cores
from scalecurve_worker.process.topology import topology

# torch leaves these without types.
nccl_version: Callable[[], tuple[int, ...]] = torch.cuda.nccl.version
cudnn_version: Callable[[], int | None] = torch.backends.cudnn.version


def choose_device(device: DeviceType, local_rank: int) -> torch.device:
    """Return the GPU of this local rank, or the CPU."""
    count = torch.cuda.device_count()
    if device is DeviceType.cpu or (device is DeviceType.auto and count == 0):
        return torch.device("cpu")
    if count == 0:
        build = "this build of torch has no CUDA" if torch.version.cuda is None else "torch sees no GPU"
        raise WorkloadError(f"workload.device: gpu requested, but {build}; expected cpu or auto")
    gpu = torch.device("cuda", local_rank % count)
    torch.cuda.set_device(gpu)
    return gpu


def device_identity(device: torch.device) -> tuple[str, str] | tuple[None, None]:
    """Return UUID and name of a GPU; nothing for a CPU, which is named by its cores."""
    if device.type != "cuda":
        return None, None
    properties = torch.cuda.get_device_properties(device)
    return f"GPU-{properties.uuid}", properties.name


def framework_versions(device: torch.device) -> dict[str, str]:
    """Return the versions of torch, and of what it was built with where a GPU is driven."""
    versions = {"torch": str(torch.__version__)}
    if device.type == "cuda":
        versions["cuda"] = str(torch.version.cuda)
        versions["cudnn"] = str(cudnn_version())
        versions["nccl"] = ".".join(map(str, nccl_version()))
        if driver := driver_version():
            versions["driver"] = driver
    return versions


def topologies_on(gpus: Sequence[int]) -> list[RankTopology]:
    """Return the workers of a process that drives several GPUs: one on each, with equal parts of its cores."""
    cores = shares_of_cores(len(gpus))
    places = (
        topology(RankIdentity(rank, len(gpus), rank), *device_identity(torch.device("cuda", index)))
        for rank, index in enumerate(gpus)
    )
    return [place.model_copy(update={"cores": own}) for place, own in zip(places, cores, strict=True)]


def data_parallel_of(model: Any) -> nn.DataParallel[nn.Module] | None:
    """Find the model's nn.DataParallel, of which one process drives several devices."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return next((module for module in modules if isinstance(module, nn.DataParallel)), None)


_AUTOCAST = {Precision.bf16: torch.bfloat16, Precision.fp16: torch.float16}


def set_arithmetic(precision: Precision, device: torch.device, options: TrainingOptions) -> None:
    """Set the arithmetic of the whole process, the same for every worker count.

    TF32 is on for ``tf32`` and off otherwise, in matrix products and in cuDNN alike; torch's own defaults differ
    between the two. cuDNN's search for the fastest algorithm is on, as in torchvision's and timm's training scripts,
    unless an option says otherwise or results must repeat bit by bit.
    """
    deterministic = options.deterministic
    if device.type != "cuda" and precision in (Precision.tf32, Precision.fp16):
        raise WorkloadError(f"workload.precision: {precision.value} needs a GPU; expected fp32 or bf16")
    tf32 = precision is Precision.tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = not deterministic if options.cudnn_benchmark is None else options.cudnn_benchmark
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Return the context of the forward pass and the loss."""
    dtype = _AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)
