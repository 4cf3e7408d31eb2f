"""``program: allreduce``: the all-reduce microbenchmark, with nccl-tests' conventions."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from scalecurve_api.model import Count, Model, Real
from scalecurve_api.problem import Problem
from scalecurve_api.programs.collectives import AllReduce, algorithm_problem, resolved_backend
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.workload import Backend, DeviceType, Launcher, Workload


class Payload(StrEnum):
    """What the microbenchmark sends: a ladder of sizes, or the gradients of a model."""

    sizes = "sizes"
    gradients = "gradients"
    buckets = "buckets"


class Sizes(Model):
    """Message sizes of the all-reduce microbenchmark, in bytes."""

    payload: Payload = Field(
        default=Payload.sizes,
        description="What is sent: sizes from minBytes to maxBytes, the gradients of workload.model, one message for "
        "each tensor, or the same gradients in DDP's buckets.",
    )
    min_bytes: Count = Field(default=8, description="Smallest message, in bytes.")
    max_bytes: Count = Field(default=1 << 30, description="Largest message, in bytes.")
    factor: Annotated[int, Field(ge=2, le=1024, strict=True)] = Field(
        default=2, description="Factor between one message size and the next."
    )
    iterations: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        default=20, description="Timed all-reduces of each size."
    )
    warmup: Annotated[int, Field(ge=0, le=100_000, strict=True)] = Field(
        default=5, description="Untimed all-reduces of each size before the timed ones."
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="Type of the elements.")


class BucketOptions(Model):
    """Options of the all-reduce microbenchmark."""

    bucket_cap_mb: Real | None = Field(
        default=None, gt=0, le=100_000, description="Size of the gradient buckets, in MiB."
    )


class AllReduceWorkload(Workload):
    """All-reduces of many sizes by NCCL, gloo or MPI."""

    runs: ClassVar[str] = "scalecurve_worker.collectives.torch_library:run"
    requires: ClassVar[str] = "torch"
    takes_batch: ClassVar[bool] = False
    counts_samples: ClassVar[bool] = False

    program: Literal["allreduce"]
    all_reduce: AllReduce = Field(
        default=AllReduce.auto,
        description="The algorithm that the collective library is told to use, or a pattern composed of its other "
        "collectives.",
    )
    sizes: Sizes = Field(default=Sizes(), description="Message sizes, in bytes.")
    options: BucketOptions = Field(default=BucketOptions(), description="Options of the program.")
    launcher: Literal[Launcher.torchrun, Launcher.mpirun] | None = Field(
        default=None, description="What starts the processes on one machine; the program's own by default."
    )

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or (Launcher.mpirun if self.over_mpi else Launcher.torchrun)

    @property
    def over_mpi(self) -> bool:
        return self.backend is Backend.mpi

    def carrier(self, on_gpu: bool) -> str:
        return resolved_backend(self.backend, on_gpu).value

    @property
    def model_framework(self) -> Framework | None:
        return None if self.sizes.payload is Payload.sizes else "torch"

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if self.all_reduce is AllReduce.hierarchical:
            if workers > 1 and nodes == 1:
                allowed = "a layout of several nodes (spec.placement): it sums inside a node, then across nodes"
                yield self.problem("allReduce", allowed)
        elif self.all_reduce is not AllReduce.parameter_server:
            yield from algorithm_problem(self, self.all_reduce)
        if self.sizes.max_bytes < self.sizes.min_bytes:
            yield self.problem("sizes.maxBytes", f"at least minBytes, {self.sizes.min_bytes}")
        if self.over_mpi:
            yield from self._mpi_problems()

    def _mpi_problems(self) -> Iterator[Problem]:
        if self.resolved_launcher is not Launcher.mpirun:
            yield self.problem("launcher", "mpirun with backend mpi: it starts MPI's ranks")
        if self.device is DeviceType.gpu:
            yield self.problem("device", "cpu or auto with backend mpi: its messages are in host memory")
        if self.sizes.dtype != "float32":
            yield self.problem("sizes.dtype", "float32 with backend mpi: MPI cannot sum 16-bit floating-point numbers")
