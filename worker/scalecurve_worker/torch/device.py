"""Which device a rank drives, by name, and the software on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from scalecurve_api.programs.workload import DeviceType
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
    """The GPU of this local rank, or the CPU."""
    count = torch.cuda.device_count()
    if device is DeviceType.cpu or (device is DeviceType.auto and count == 0):
        return torch.device("cpu")
    if count == 0:
        build = "this build of torch has no CUDA" if torch.version.cuda is None else "torch sees no GPU"
        raise WorkloadError(f"workload.device: gpu requested, but {build}; allowed here: cpu, auto")
    gpu = torch.device("cuda", local_rank % count)
    torch.cuda.set_device(gpu)
    return gpu


def device_identity(device: torch.device) -> tuple[str, str] | tuple[None, None]:
    """UUID and name of a GPU; nothing for a CPU, which is named by its cores."""
    if device.type != "cuda":
        return None, None
    properties = torch.cuda.get_device_properties(device)
    return f"GPU-{properties.uuid}", properties.name


def framework_versions(device: torch.device) -> dict[str, str]:
    """torch, and what it was built with where a GPU is driven."""
    found = {"torch": str(torch.__version__)}
    if device.type == "cuda":
        found["cuda"] = str(torch.version.cuda)
        found["cudnn"] = str(cudnn_version())
        found["nccl"] = ".".join(map(str, nccl_version()))
        driver = driver_version()
        if driver:
            found["driver"] = driver
    return found


def seats_on(gpus: Sequence[int]) -> list[RankTopology]:
    """The workers of a process that drives several GPUs: one on each, with equal parts of its cores."""
    cores = shares_of_cores(len(gpus))
    seats = []
    for rank, index in enumerate(gpus):
        where = topology(RankIdentity(rank, len(gpus), rank), *device_identity(torch.device("cuda", index)))
        seats.append(where.model_copy(update={"cores": cores[rank]}))
    return seats
