"""``program: tensorflow``: a Keras model trained under one of TensorFlow's strategies, or under Horovod."""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, StrictBool

from scalecurve_api.model import Described, Real
from scalecurve_api.problem import Problem, forbidden, only_with, unsupported
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.collectives import resolved_backend
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.horovod import HALF_HOOKS, MPI_BACKENDS, TAPE, horovod_not_installed
from scalecurve_api.programs.installation import is_installed, lacking
from scalecurve_api.programs.labels import Pictures, TrainingLabels
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.torch_options import BatchNormMode, CommHook, ServerCount
from scalecurve_api.programs.training import TrainingWorkload, Transfer
from scalecurve_api.programs.workload import ACCURACY, Backend, DeviceType, Launcher, Precision, Strategy

CHIEF = "chief"
"""The ``SCALECURVE_ROLE`` of the process that leads parameter servers and their workers, and keeps the record."""

GRPC = "grpc"  # what carries gradients and parameters to TensorFlow's parameter servers

TensorFlowStrategy = Literal[
    Strategy.one_device, Strategy.mirrored, Strategy.multi_worker_mirrored, Strategy.parameter_server, Strategy.horovod
]

CLASSES: dict[Strategy, str] = {
    Strategy.one_device: "OneDeviceStrategy",
    Strategy.mirrored: "MirroredStrategy",
    Strategy.multi_worker_mirrored: "CollectiveAllReduceStrategy",
    Strategy.parameter_server: "ParameterServerStrategyV2",
    Strategy.horovod: TAPE,
}
"""Strategy -> the class of TensorFlow or Horovod that ``RankRecord.strategy`` must name."""


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


class TensorFlowWorkload(TrainingWorkload):
    """A Keras model trained by TensorFlow."""

    runs: ClassVar[str] = "scalecurve_worker.tensorflow.program:run"
    requires: ClassVar[str] = "tensorflow"
    worker_image: ClassVar[str] = "tensorflow"
    model_framework: ClassVar[Framework] = "tensorflow"

    program: Literal["tensorflow"]
    strategy: TensorFlowStrategy | None = None
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
    def resolved_strategy(self) -> Strategy:
        return self.strategy or Strategy.one_device

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or (Launcher.mpirun if self._over_horovod else Launcher.processes)

    @property
    def _over_horovod(self) -> bool:
        return self.strategy is Strategy.horovod

    def not_installed(self) -> str | None:
        if not is_installed("tensorflow"):
            return lacking("program", self.program, "TensorFlow")
        return horovod_not_installed("strategy", self.requires) if self._over_horovod else None

    @property
    def needs_mpirun(self) -> bool:
        """TensorFlow's own processes find one another by themselves."""
        return self._over_horovod

    @property
    def roles(self) -> tuple[str, ...]:
        if self.strategy is not Strategy.parameter_server:
            return ()
        return (CHIEF, *(f"server-{index}" for index in range(self.parameter_server.servers)))

    def carrier(self, on_gpu: bool) -> str | None:
        """What must carry the sums; None where nothing is summed.

        ``ring`` is TensorFlow's own, in memory within a process and by gRPC between them. ``auto`` and ``default`` are
        NCCL where every device is a GPU.
        """
        if self.roles:
            return GRPC
        if self._over_horovod:
            return resolved_backend(self.backend, on_gpu, on_cpu=Backend.mpi).value
        if self.resolved_strategy is Strategy.one_device:
            return None
        named = self.cross_device_ops if self.strategy is Strategy.mirrored else self.communication
        if named not in (None, CrossDeviceOps.default, Communication.auto):
            return str(named)
        return "nccl" if on_gpu else "ring"

    def wrapper(self) -> str:
        return CLASSES[self.resolved_strategy]

    def accuracy_problems(self, accuracy: Accuracy, workers: int) -> Iterator[Problem]:
        if self.roles:
            yield Problem(ACCURACY, accuracy.wire(), forbidden("TensorFlow's parameter servers are only timed"))
        else:
            yield from super().accuracy_problems(accuracy.model_copy(update={"checkpoints": None}), workers)

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        carrier = self.carrier(on_gpu=True) or "nothing"
        if self.backend is not Backend.auto and carrier != self.backend.value:
            yield self.problem("backend", unsupported(f"where {carrier} carries gradients", "auto"))
        if self.launcher not in (None, Launcher.mpirun if self._over_horovod else Launcher.processes):
            violation = unsupported("with strategy horovod, whose ranks mpirun starts", "mpirun")
            if not self._over_horovod:
                reason = "with program tensorflow, whose workers find each other through TF_CONFIG"
                violation = unsupported(reason, "processes")
            yield self.problem("launcher", violation)
        yield from self._torch_alone()
        if self.roles:
            yield from self._served_problems()
        elif self.parameter_server != ServerCount():
            yield self.problem("parameterServer", only_with("strategy parameter-server"))
        if not self._over_horovod:
            if self.options.comm_hook is not CommHook.none:
                where = f"with strategy {self.resolved_strategy}, only with horovod"
                yield self.problem("options.commHook", unsupported(where, "none"))
            if self.options.bucket_cap_mb is not None:
                yield self.problem("options.bucketCapMb", only_with("strategy horovod"))
        yield from self._reduction_problems(workers)

    def _torch_alone(self) -> Iterator[Problem]:
        fields = [name for name in ("optimizer.fused", "data.loaderWorkers") if self.field_value(name) is not None]
        fields += ["data.labels"] if self.data.labels != TrainingLabels() else []
        fields += ["data.pictures"] if self.data.pictures != Pictures() else []
        for field in fields:
            yield self.problem(field, only_with("programs torch and horovod"))

    def _served_problems(self) -> Iterator[Problem]:
        if self.data.source is not DataSource.synthetic:
            yield self.problem("data.source", unsupported("with TensorFlow's parameter servers", "synthetic"))
        for name in self.data.augments:
            reason = "workers of TensorFlow's parameter servers take random batches"
            yield self.problem(f"data.{name}", forbidden(reason))
        if self.transfer != Transfer():
            yield self.problem("transfer", forbidden("TensorFlow's parameter servers are only timed"))

    def _reduction_problems(self, workers: int) -> Iterator[Problem]:
        ops, cpu, strategy = self.cross_device_ops, self.device is DeviceType.cpu, self.resolved_strategy
        if ops is not None and strategy is not Strategy.mirrored:
            yield self.problem("crossDeviceOps", only_with("strategy mirrored"))
        elif ops is CrossDeviceOps.hierarchical_copy and workers % 2 and workers > 1:
            # Seen in TF 2.21: with 3 replicas the third is dropped from the sum, without any error.
            where = f"with {workers} workers, where its sums are silently wrong"
            yield self.problem("crossDeviceOps", unsupported(where, "1 worker or an even number"))
        elif ops is CrossDeviceOps.nccl and cpu:
            yield self.problem("crossDeviceOps", unsupported("on device cpu", "another value"))
        if self.communication is not None and strategy is not Strategy.multi_worker_mirrored:
            yield self.problem("communication", only_with("strategy multi-worker-mirrored"))
        elif self.communication is Communication.nccl and cpu:
            yield self.problem("communication", unsupported("on device cpu", "auto or ring"))
