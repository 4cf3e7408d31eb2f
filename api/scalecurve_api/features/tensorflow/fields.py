"""``program: tensorflow``: a Keras model trained under one of TensorFlow's strategies, or of another library's."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool

from scalecurve_api.model import Described, Real
from scalecurve_api.problem import Problem, Violation, only_with, unsupported
from scalecurve_api.programs.all_reduce import MPI_BACKENDS
from scalecurve_api.programs.installation import is_installed, lacking
from scalecurve_api.programs.labels import Pictures, TrainingLabels
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.strategy import NameIn, Strategy
from scalecurve_api.programs.torch_options import HALF_HOOKS, BatchNormMode, CommHook, ServerCount
from scalecurve_api.programs.training import TrainingWorkload
from scalecurve_api.programs.workload import Backend, Launcher, Precision
from scalecurve_api.registry import Registry

CHIEF = "chief"
"""The ``SCALECURVE_ROLE`` of the process that leads parameter servers and their workers, and keeps the record."""


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


class TensorFlowOptions(Described):
    """Options of program tensorflow; the same for every worker count."""

    channels_last: StrictBool = Field(default=False, description="Store images with the channels last.")
    deterministic: StrictBool = Field(default=False, description="Use deterministic kernels only.")
    reshuffle: StrictBool = Field(default=True, description="Use another order of the data in every epoch.")
    batch_norm: Literal[BatchNormMode.local] | None = None
    """Running statistics of batch norm; by default broadcast for ddp and zero1, local otherwise."""
    comm_hook: HALF_HOOKS = Field(default=CommHook.none, description="How gradients are compressed for the all-reduce.")
    bucket_cap_mb: Real | None = Field(default=None, gt=0, le=100_000)
    """Size of the gradient buckets, in MiB."""
    label_smoothing: Real = Field(default=0.0, ge=0, lt=1)
    """Share of a label that is spread over all classes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorFlowStrategy(Strategy):
    """A strategy of program tensorflow; a package adds one by an entry point in ``scalecurve.tensorflow_strategies``.

    Its other half, which makes the strategy, is an entry of ``scalecurve_worker.tensorflow_strategies``.
    """

    options: type[TensorFlowOptions] = TensorFlowOptions
    own_fields: tuple[str, ...] = ()  # fields of the workload that other strategies must leave at their defaults
    served: bool = False  # a chief and parameter servers run beside its workers
    over_mpi: bool = False  # mpirun starts its ranks

    def carrier(self, workload: "TensorFlowWorkload", on_gpu: bool) -> str | None:
        """Name what must carry the sums; None where nothing is summed.

        ``ring`` is TensorFlow's own, in memory within a process and by gRPC between them. ``auto`` and ``default`` are
        NCCL where every device is a GPU.
        """
        return "nccl" if on_gpu else "ring"

    def not_installed(self, workload: "TensorFlowWorkload") -> str | None:
        """Say which library this Python lacks for it, beside TensorFlow; None if none."""
        return None

    def problems(self, workload: "TensorFlowWorkload", workers: int) -> Iterator[Problem]:
        """Yield every rule of this strategy that the workload breaks."""
        yield from ()


TENSORFLOW_STRATEGIES: Registry[TensorFlowStrategy] = Registry(
    "scalecurve.tensorflow_strategies",
    "strategy of program tensorflow",
    TensorFlowStrategy,
    {
        "one-device": "scalecurve_api.features.tensorflow.strategy:ONE_DEVICE",
        "mirrored": "scalecurve_api.features.tensorflow.strategy:MIRRORED",
        "multi-worker-mirrored": "scalecurve_api.features.tensorflow.strategy:MULTI_WORKER_MIRRORED",
        "parameter-server": "scalecurve_api.features.tensorflow.strategy:PARAMETER_SERVER",
    },
)


class TensorFlowWorkload(TrainingWorkload):
    """A Keras model trained by TensorFlow."""

    runs: ClassVar[str] = "scalecurve_worker.features.tensorflow.program:run"
    requires: ClassVar[str] = "tensorflow"
    worker_image: ClassVar[str] = "tensorflow"
    model_framework: ClassVar[Framework] = "tensorflow"
    for_strategies: ClassVar[tuple[str, ...]] = ("parameterServer",)
    strategies: ClassVar[Registry[TensorFlowStrategy]] = TENSORFLOW_STRATEGIES

    program: Literal["tensorflow"]
    strategy: Annotated[str, NameIn(TENSORFLOW_STRATEGIES)] | None = None
    """How training is spread over workers; the program's own by default."""
    precision: Literal[Precision.fp32, Precision.tf32, Precision.bf16] = Precision.fp32
    """Arithmetic of the forward and backward pass."""
    backend: MPI_BACKENDS = Field(default=Backend.auto, description="The collective library; auto is NCCL on GPUs.")
    cross_device_ops: CrossDeviceOps | None = None
    """Strategy mirrored: TensorFlow's cross-device reduction."""
    communication: Communication | None = None
    """Strategy multi-worker-mirrored: TensorFlow's collective implementation."""
    options: TensorFlowOptions = Field(default=TensorFlowOptions(), description="Options of the program.")
    parameter_server: ServerCount = Field(default=ServerCount(), description="Settings of strategy parameter-server.")
    launcher: Literal[Launcher.mpirun, Launcher.processes] | None = None
    """What starts the processes on one machine; the program's own by default."""

    @property
    def resolved_strategy(self) -> TensorFlowStrategy:
        return TENSORFLOW_STRATEGIES.get(self.strategy or next(iter(TENSORFLOW_STRATEGIES.built_in)))

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or (Launcher.mpirun if self.resolved_strategy.over_mpi else Launcher.processes)

    def not_installed(self) -> str | None:
        if not is_installed("tensorflow"):
            return lacking("program", self.program, "TensorFlow")
        return self.resolved_strategy.not_installed(self)

    @property
    def needs_mpirun(self) -> bool:
        """TensorFlow's own processes find one another by themselves."""
        return self.resolved_strategy.over_mpi

    @property
    def roles(self) -> tuple[str, ...]:
        if not self.resolved_strategy.served:
            return ()
        return (CHIEF, *(f"server-{index}" for index in range(self.parameter_server.servers)))

    def carrier(self, on_gpu: bool) -> str | None:
        return self.resolved_strategy.carrier(self, on_gpu)

    def unmeasured(self, part: str, workers: int) -> Violation | None:
        return None if part == "checkpoints" else super().unmeasured(part, workers)

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        carrier = self.carrier(on_gpu=True) or "nothing"
        if self.backend is not Backend.auto and carrier != self.backend.value:
            yield self.problem("backend", unsupported(f"where {carrier} carries gradients", "auto"))
        if self.launcher not in (None, Launcher.mpirun if self.resolved_strategy.over_mpi else Launcher.processes):
            violation = unsupported(f"with strategy {self.resolved_strategy}, whose ranks mpirun starts", "mpirun")
            if not self.resolved_strategy.over_mpi:
                reason = "with program tensorflow, whose workers find each other through TF_CONFIG"
                violation = unsupported(reason, "processes")
            yield self.problem("launcher", violation)
        yield from self._torch_alone()
        yield from self._foreign_fields()
        yield from self.resolved_strategy.problems(self, workers)

    def _foreign_fields(self) -> Iterator[Problem]:
        """What is set and belongs to another strategy."""
        strategy, plain = self.resolved_strategy, type(self)(program=self.program)
        for other in self.strategies.loadable().values():
            for field in set(other.own_fields) - set(strategy.own_fields):
                if self.field_value(field) == plain.field_value(field):
                    continue
                where = f"with strategy {strategy}, only with {other}"
                hook = field == "options.commHook"
                yield self.problem(field, unsupported(where, "none") if hook else only_with(f"strategy {other}"))

    def _torch_alone(self) -> Iterator[Problem]:
        fields = [name for name in ("optimizer.fused", "data.loaderWorkers") if self.field_value(name) is not None]
        fields += ["data.labels"] if self.data.labels != TrainingLabels() else []
        fields += ["data.pictures"] if self.data.pictures != Pictures() else []
        for field in fields:
            yield self.problem(field, only_with("programs torch and horovod"))
