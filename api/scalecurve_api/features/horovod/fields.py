"""``program: horovod``: the models of program torch, spread by Horovod 0.28.1 over ranks that mpirun started."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.problem import Problem, Violation, only_with, unsupported
from scalecurve_api.programs.all_reduce import MPI_BACKENDS, AllReduce, resolved_backend
from scalecurve_api.programs.torch import TorchTraining
from scalecurve_api.programs.torch_options import HALF_HOOKS, BatchNormMode, CommHook, TrainingOptions
from scalecurve_api.programs.workload import Backend, DeviceType, Launcher, Precision

VERSION = "0.28.1"  # the one release that is built and tried; its last, of June 2023
WRAPPER = "DistributedOptimizer"  # what RankRecord.strategy must say of program horovod

MISSING = "Horovod is not installed here; `make horovod` builds it"
PART_MISSING = "Horovod is installed here without its part for {}; `make horovod` builds it"


def horovod_not_installed(field: str, framework: str) -> str | None:
    """Say that this Python lacks Horovod, or its part for the framework; importing that would import the framework."""
    spec = importlib.util.find_spec("horovod")
    if spec is None or spec.origin is None:
        return f"spec.workload.{field}: {MISSING}"
    if not any((Path(spec.origin).parent / framework).glob("mpi_lib*.so")):
        return f"spec.workload.{field}: {PART_MISSING.format(framework)}"
    return None


class HorovodOptions(TrainingOptions):
    """Options of program horovod; the same for every worker count."""

    # Horovod refuses tensors in another order.
    channels_last: Literal[False] = Field(default=False, description="Store images with the channels last.")
    comm_hook: HALF_HOOKS = Field(default=CommHook.none, description="How gradients are compressed for the all-reduce.")
    batch_norm: Literal[BatchNormMode.local] | None = None
    """Running statistics of batch norm; by default broadcast for ddp and zero1, local otherwise."""


class HorovodWorkload(TorchTraining):
    """A model of program torch, trained by PyTorch and spread by Horovod."""

    runs: ClassVar[str] = "scalecurve_worker.features.horovod.torch_program:run"
    resolved_launcher: ClassVar[Launcher] = Launcher.mpirun
    worker_image: ClassVar[str] = "horovod"
    batch_norm: ClassVar[BatchNormMode] = BatchNormMode.local

    program: Literal["horovod"]
    # Gradients are scaled back before the optimizer's step, which is where Horovod waits for their sums: no fp16.
    precision: Literal[Precision.fp32, Precision.tf32, Precision.bf16] = Precision.fp32
    """Arithmetic of the forward and backward pass."""
    # Horovod 0.28.1 crashes when gloo sums and MPI has started the ranks.
    backend: MPI_BACKENDS = Field(default=Backend.auto, description="The collective library; auto is NCCL on GPUs.")
    all_reduce: Literal[AllReduce.auto, AllReduce.ring, AllReduce.tree] = AllReduce.auto
    """The algorithm that the collective library is told to use."""
    options: HorovodOptions = Field(default=HorovodOptions(), description="Options of the program.")
    launcher: Literal[Launcher.mpirun] | None = None
    """What starts the processes on one machine; the program's own by default."""

    def not_installed(self) -> str | None:
        return horovod_not_installed("program", self.requires) or super().not_installed()

    def carrier(self, on_gpu: bool) -> str:
        return resolved_backend(self.backend, on_gpu, on_cpu=Backend.mpi).value

    def wrapper(self) -> str:
        return WRAPPER

    def unmeasured(self, part: str, workers: int) -> Violation | None:
        return None if part == "checkpoints" else super().unmeasured(part, workers)

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        on_cpu = self.device is DeviceType.cpu or self.backend is Backend.mpi
        if self.all_reduce is not AllReduce.auto and on_cpu:
            yield self.problem("allReduce", unsupported("unless NCCL carries the sums", "auto"))
        if self.data.labels.pseudo_labels is not None:
            yield self.problem("data.labels.pseudoLabels", only_with("program torch"))
        if violation := self.options.recomputation_problem(self.model):
            yield self.problem("options.activationCheckpointing", violation)
