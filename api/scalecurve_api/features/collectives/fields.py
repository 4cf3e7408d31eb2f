"""The microbenchmarks of collectives, with nccl-tests' conventions.

``program: allreduce`` times one all-reduce algorithm, ``program: collectives`` every kind of collective.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.features.collectives.nccl_tests_command import find_collective, sizes_of
from scalecurve_api.model import Count, Described, Real, Whole
from scalecurve_api.problem import Problem, expected, expected_once, only_with, unsupported
from scalecurve_api.programs.all_reduce import AllReduce, algorithm_problem, resolved_backend
from scalecurve_api.programs.installation import is_installed, lacking
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.workload import Backend, DeviceType, Launcher, Workload


class Payload(StrEnum):
    """What the microbenchmark sends: a ladder of sizes, or the gradients of a model."""

    sizes = "sizes"
    gradients = "gradients"
    buckets = "buckets"


class Sizes(Described):
    """Message sizes of a microbenchmark, in bytes: the larger of a rank's input and output."""

    payload: Payload = Payload.sizes
    """What is sent: sizes from minBytes to maxBytes, the gradients of workload.model, one message for each tensor, or
    the same gradients in DDP's buckets."""
    min_bytes: Count = Field(default=8, description="Smallest message, in bytes.")
    max_bytes: Count = Field(default=1 << 30, description="Largest message, in bytes.")
    factor: Whole = Field(default=2, ge=2, le=1024, description="Factor between one message size and the next.")
    iterations: Whole = Field(default=20, ge=1, le=100_000, description="Timed calls for each size.")
    warmup: Whole = Field(default=5, ge=0, le=100_000)
    """Untimed calls for each size before the timed ones."""
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="Type of the elements.")


class BucketOptions(Described):
    """Options of the microbenchmarks."""

    bucket_cap_mb: Real | None = Field(default=None, gt=0, le=100_000)
    """Size of the gradient buckets, in MiB."""


class Microbenchmark(Workload):
    """Messages of many sizes by NCCL, gloo or MPI, timed by themselves."""

    built_in: ClassVar[bool] = True
    requires: ClassVar[str] = "torch"
    runs_over_mpi: ClassVar[str]
    """``runs`` where MPI itself carries the messages, from host memory, and torch is not needed."""
    worker_image: ClassVar[str] = "torch"
    takes_batch: ClassVar[bool] = False
    counts_samples: ClassVar[bool] = False

    sizes: Sizes = Field(default=Sizes(), description="Message sizes, in bytes.")
    options: BucketOptions = Field(default=BucketOptions(), description="Options of the program.")
    launcher: Literal[Launcher.torchrun, Launcher.mpirun] | None = None
    """What starts the processes on one machine; the program's own by default."""

    @property
    def kinds(self) -> int:
        """How many collectives go through all sizes."""
        return 1

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or (Launcher.mpirun if self.host_only else Launcher.torchrun)

    @property
    def host_only(self) -> bool:
        return self.backend is Backend.mpi

    @property
    def entry(self) -> tuple[str, str]:
        return (self.runs_over_mpi, "mpi4py") if self.host_only else super().entry

    def not_installed(self) -> str | None:
        if not self.host_only:
            return super().not_installed()
        return None if is_installed("mpi4py") else lacking("backend", "mpi", "mpi4py")

    def calls(self) -> int:
        sizes = self.sizes
        messages, size = 0, sizes.min_bytes
        while size <= sizes.max_bytes:
            messages, size = messages + 1, size * sizes.factor
        return self.kinds * messages * 2 * (sizes.iterations + sizes.warmup)

    def carrier(self, on_gpu: bool) -> str:
        return resolved_backend(self.backend, on_gpu).value

    @property
    def model_framework(self) -> Framework | None:
        return None if self.sizes.payload is Payload.sizes else "torch"

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if self.sizes.max_bytes < self.sizes.min_bytes:
            yield self.problem("sizes.maxBytes", expected(f"at least minBytes, {self.sizes.min_bytes}"))
        if self.host_only:
            yield from self._mpi_problems()

    def _mpi_problems(self) -> Iterator[Problem]:
        if self.resolved_launcher is not Launcher.mpirun:
            yield self.problem("launcher", unsupported("with backend mpi", "mpirun"))
        if self.device is DeviceType.gpu:
            yield self.problem(
                "device", unsupported("with backend mpi, whose messages are in host memory", "cpu or auto")
            )
        if self.sizes.dtype != "float32":
            reason = "with backend mpi, which cannot sum 16-bit floating-point numbers"
            yield self.problem("sizes.dtype", unsupported(reason, "float32"))


class AllReduceWorkload(Microbenchmark):
    """All-reduces of many sizes by NCCL, gloo or MPI."""

    runs: ClassVar[str] = "scalecurve_worker.features.collectives.torch_library:run"
    runs_over_mpi: ClassVar[str] = "scalecurve_worker.features.collectives.mpi_library:run"

    program: Literal["allreduce"]
    all_reduce: AllReduce = AllReduce.auto
    """The algorithm that the collective library is told to use, or a pattern composed of its other collectives."""

    @classmethod
    def of_command(cls, words: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
        if find_collective(words[0]) is not Collective.all_reduce:
            return None
        sizes, left = sizes_of(words[1:])
        return {"program": "allreduce", "sizes": sizes}, left

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if self.all_reduce is AllReduce.hierarchical:
            if workers > 1 and nodes == 1:
                reason = "on one node: it sums inside a node, then across nodes"
                yield self.problem("allReduce", unsupported(reason, "a layout of several nodes (spec.placement)"))
        elif self.all_reduce is not AllReduce.parameter_server:
            yield from algorithm_problem(self, self.all_reduce)


class CollectivesWorkload(Microbenchmark):
    """Collectives of many sizes by NCCL, gloo or MPI."""

    runs: ClassVar[str] = "scalecurve_worker.features.collectives.torch_library:run_collectives"
    runs_over_mpi: ClassVar[str] = "scalecurve_worker.features.collectives.mpi_library:run_collectives"

    program: Literal["collectives"]
    collectives: Annotated[list[Collective], Field(min_length=1, max_length=len(Collective))] = list(Collective)
    """Which collectives are timed, one after another in each trial."""
    tool: Literal["nccl-tests"] | None = None
    """A benchmark that each trial runs after its own, on one node, where its programs are on PATH."""

    @classmethod
    def of_command(cls, words: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
        if (timed := find_collective(words[0])) in (None, Collective.all_reduce):
            return None
        sizes, left = sizes_of(words[1:])
        return {"program": "collectives", "collectives": [timed.value], "sizes": sizes}, left

    @property
    def kinds(self) -> int:
        return len(self.collectives)

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if len(set(self.collectives)) < len(self.collectives):
            yield self.problem("collectives", expected_once("collective"))
        if workers == 1:
            yield self.problem(
                "collectives", unsupported("with 1 worker, which has no peer", "2 or more workers at every point")
            )
        if (
            self.tool is not None
            and resolved_backend(self.backend, self.device is not DeviceType.cpu) is not Backend.nccl
        ):
            yield self.problem("tool", only_with("NCCL"))
