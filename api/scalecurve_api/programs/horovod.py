"""``program: horovod``: the models of program torch, spread by Horovod 0.28.1 over ranks that mpirun started."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.problem import Problem
from scalecurve_api.programs.collectives import AllReduce
from scalecurve_api.programs.data import Augmentation, Data
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.optimizer import TorchOptimizer
from scalecurve_api.programs.torch import BatchNormMode, CommHook, TorchWorkload, TrainingOptions, Transfer
from scalecurve_api.programs.workload import Backend, DeviceType, Launcher, Precision, Workload

VERSION = "0.28.1"
"""The one release that is built and tried; its last, of June 2023."""

WRAPPER = "DistributedOptimizer"
"""What ``RankRecord.strategy`` must say of program horovod."""

TAPE = "DistributedGradientTape"
"""The same of program tensorflow with strategy horovod."""

MISSING = "Horovod is not installed here; `make horovod` builds it"
PART_MISSING = "Horovod is installed here without its part for {}; `make horovod` builds it"

MPI_BACKENDS = Literal[Backend.auto, Backend.nccl, Backend.mpi]
"""Horovod 0.28.1 crashes when gloo sums and MPI has started the ranks."""
HALF_HOOKS = Literal[CommHook.none, CommHook.fp16]


def horovod_carrier(backend: Backend, on_gpu: bool) -> str:
    """What must carry the sums: NCCL on GPUs and MPI on CPUs, unless one is named."""
    if backend is not Backend.auto:
        return backend.value
    return "nccl" if on_gpu else "mpi"


class HorovodData(Data):
    """Where samples come from, and their shape."""

    # What the loader of program torch also asks for; Horovod's program has no such fields.
    @property
    def augmentation(self) -> Augmentation:
        return Augmentation.auto

    @property
    def cutout(self) -> int:
        return 0

    @property
    def instances(self) -> int:
        return 1

    @property
    def validation(self) -> float | None:
        return None

    @property
    def split_seed(self) -> int:
        return 0


class HorovodOptimizer(TorchOptimizer):
    """The update rule."""

    name: Literal["sgd", "adamw", "adagrad"] = Field(default="sgd", description="The update rule.")
    decay_norm: Literal[True] = Field(
        default=True, description="Apply weight decay to biases and to the parameters of norms too."
    )


class HorovodOptions(TrainingOptions):
    """Options of program horovod; the same for every worker count."""

    # Horovod refuses tensors in another order.
    channels_last: Literal[False] = Field(default=False, description="Store images with the channels last.")
    comm_hook: HALF_HOOKS = Field(default=CommHook.none, description="How gradients are compressed for the all-reduce.")
    batch_norm: Literal[BatchNormMode.local] | None = Field(
        default=None,
        description="Running statistics of batch norm; by default broadcast for ddp and zero1, local otherwise.",
    )


class HorovodWorkload(Workload):
    """A model of program torch, trained by PyTorch and spread by Horovod."""

    runs: ClassVar[str] = "scalecurve_worker.extras.horovod.torch_program:run"
    requires: ClassVar[str] = "torch"

    program: Literal["horovod"]
    data: HorovodData = Field(default=HorovodData(), description="Where samples come from, and their shape.")
    # Gradients are scaled back before the optimizer's step, which is where Horovod waits for their sums: no fp16.
    precision: Literal[Precision.fp32, Precision.tf32, Precision.bf16] = Field(
        default=Precision.fp32, description="Arithmetic of the forward and backward pass."
    )
    backend: MPI_BACKENDS = Field(default=Backend.auto, description="The collective library; auto is NCCL on GPUs.")
    all_reduce: Literal[AllReduce.auto, AllReduce.ring, AllReduce.tree] = Field(
        default=AllReduce.auto, description="The algorithm that the collective library is told to use."
    )
    optimizer: HorovodOptimizer = Field(default=HorovodOptimizer(), description="The update rule.")
    options: HorovodOptions = Field(default=HorovodOptions(), description="Options of the program.")
    launcher: Literal[Launcher.mpirun] | None = Field(
        default=None, description="What starts the processes on one machine; the program's own by default."
    )

    @property
    def transfer(self) -> Transfer:
        return Transfer()

    @property
    def gradient_accumulation(self) -> int:
        return self.options.gradient_accumulation

    @property
    def batch_norm(self) -> BatchNormMode:
        return BatchNormMode.local

    @property
    def resolved_launcher(self) -> Launcher:
        return Launcher.mpirun

    @property
    def over_horovod(self) -> bool:
        return True

    def carrier(self, on_gpu: bool) -> str:
        return horovod_carrier(self.backend, on_gpu)

    def wrapper(self) -> str:
        return WRAPPER

    @property
    def model_framework(self) -> Framework:
        return "torch"

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        on_cpu = self.device is DeviceType.cpu or self.backend is Backend.mpi
        if self.all_reduce is not AllReduce.auto and on_cpu:
            yield self.problem("allReduce", "auto, unless NCCL carries the sums")
        for allowed in self.optimizer.wrong_milestones():
            yield self.problem("optimizer.milestones", allowed)


TorchTraining = TorchWorkload | HorovodWorkload
"""Workloads that train a model of the torch catalog."""
