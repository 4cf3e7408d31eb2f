"""``program: torch``: a model of the catalog trained by PyTorch, with its own ways to spread over workers."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool

from scalecurve_api.model import FilePath, Model, Real
from scalecurve_api.problem import Problem
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.collectives import PATTERNS, AllReduce, algorithm_problem, resolved_backend
from scalecurve_api.programs.data import DataSource, TorchData
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.optimizer import TorchOptimizer
from scalecurve_api.programs.workload import ACCURACY, Backend, DeviceType, Launcher, Strategy, Workload

TCP = "tcp"
"""What carries gradients to the parameter servers."""

WRAPPERS: dict[Strategy, str] = {
    Strategy.single: "none",
    Strategy.ddp: "DistributedDataParallel",
    Strategy.dp: "DataParallel",
    Strategy.fsdp: "FSDPModule",
    Strategy.zero1: "DistributedDataParallel + ZeroRedundancyOptimizer",
    Strategy.parameter_server: "ParameterServer",
}
"""Strategy -> what ``RankRecord.strategy`` must say."""

_FULL_REPLICA = (Strategy.single, Strategy.ddp, Strategy.dp, Strategy.zero1)
"""Strategies whose every process holds all parameters."""


class CommHook(StrEnum):
    """How DDP compresses gradients for the all-reduce; ``none`` sends them as they are."""

    none = "none"
    fp16 = "fp16"
    bf16 = "bf16"
    powersgd = "powersgd"
    top_k = "top-k"
    eight_bit = "eight-bit"
    one_bit = "one-bit"


class BatchNormMode(StrEnum):
    """Running statistics of batch norm: rank 0's sent to all, each rank's own, or those of the whole global batch."""

    broadcast = "broadcast"
    local = "local"
    synchronized = "synchronized"


BATCH_NORM: dict[Strategy, tuple[BatchNormMode, ...]] = {
    Strategy.ddp: (BatchNormMode.broadcast, BatchNormMode.local, BatchNormMode.synchronized),
    Strategy.zero1: (BatchNormMode.broadcast, BatchNormMode.local, BatchNormMode.synchronized),
    Strategy.fsdp: (BatchNormMode.local, BatchNormMode.synchronized),
    Strategy.parameter_server: (BatchNormMode.local,),
}
"""What each strategy can do with batch norm's running statistics; the first is its default."""


class TrainingOptions(Model):
    """Options that programs torch and horovod share; the same for every worker count."""

    channels_last: StrictBool = Field(default=False, description="Store images with the channels last.")
    compile: StrictBool = Field(default=False, description="Compile the model with torch.compile.")
    bucket_cap_mb: Real | None = Field(
        default=None, gt=0, le=100_000, description="Size of the gradient buckets, in MiB."
    )
    gradient_accumulation: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=1, description="Backward passes whose gradients are added up before an update."
    )
    deterministic: StrictBool = Field(default=False, description="Use deterministic kernels only.")
    comm_hook: CommHook = Field(default=CommHook.none, description="How gradients are compressed for the all-reduce.")
    batch_norm: BatchNormMode | None = Field(
        default=None,
        description="Running statistics of batch norm; by default broadcast for ddp and zero1, local otherwise.",
    )
    reshuffle: StrictBool = Field(default=True, description="Use another order of the data in every epoch.")
    label_smoothing: Real = Field(
        default=0.0, ge=0, lt=1, description="Share of a label that is spread over all classes."
    )


class TorchOptions(TrainingOptions):
    """Options of program torch; the same for every worker count."""

    gradient_as_bucket_view: StrictBool = Field(
        default=True, description="DDP keeps gradients in the buckets that it sends, without a copy."
    )
    static_graph: StrictBool = Field(default=False, description="Tell DDP that every step has the same graph.")
    fsdp_group_mb: Real = Field(
        default=128, gt=0, le=100_000, description="Strategy fsdp: gather blocks together up to this many MiB."
    )
    comm_hook_rank: Annotated[int, Field(ge=1, le=1024, strict=True)] = Field(
        default=1, description="Rank of the approximation by commHook powersgd."
    )
    comm_hook_density: Real = Field(
        default=0.01, gt=0, le=1, description="Share of the gradients that commHook top-k sends."
    )
    keep_threads: StrictBool = Field(
        default=True,
        description="Strategy dp: each GPU keeps its thread from step to step; false starts new ones, as torch does.",
    )


class Trainable(StrEnum):
    """Which parameters of a pretrained model change."""

    all = "all"
    head = "head"
    scratch = "scratch"


class Transfer(Model):
    """Start from trained parameters, with a new head for the classes of the data."""

    checkpoint: FilePath | None = Field(
        default=None, description="State dict of the same architecture, as measure.accuracy.checkpoints writes it."
    )
    train: Trainable = Field(
        default=Trainable.all,
        description="Which parameters change; head freezes all others, and scratch ignores the checkpoint.",
    )


class Updates(StrEnum):
    """When a parameter server applies updates: once it has every worker's gradient, or with each gradient."""

    synchronous = "synchronous"
    asynchronous = "asynchronous"


class ServerCount(Model):
    """Strategy parameter-server: how many processes hold the parameters."""

    servers: Annotated[int, Field(ge=1, le=256, strict=True)] = Field(
        default=1, description="Processes that each hold a share of the parameters; they are not workers."
    )


class ParameterServerOptions(ServerCount):
    """Strategy parameter-server: who holds the parameters, and when they change."""

    updates: Updates = Field(default=Updates.asynchronous, description="When a server updates its parameters.")
    backup_workers: Annotated[int, Field(ge=0, le=65536, strict=True)] = Field(
        default=0, description="Synchronous updates: do not wait for this many of the slowest gradients of a step."
    )
    staleness_aware: StrictBool = Field(
        default=False, description="Asynchronous updates: divide the learning rate by a gradient's staleness."
    )


class TorchWorkload(Workload):
    """A model of the catalog trained by PyTorch."""

    runs: ClassVar[str] = "scalecurve_worker.torch.program:run"
    requires: ClassVar[str] = "torch"
    strategies: ClassVar[tuple[Strategy, ...]] = (
        Strategy.ddp,
        Strategy.single,
        Strategy.dp,
        Strategy.fsdp,
        Strategy.zero1,
        Strategy.parameter_server,
    )

    program: Literal["torch"] = "torch"
    strategy: (
        Literal[Strategy.ddp, Strategy.single, Strategy.dp, Strategy.fsdp, Strategy.zero1, Strategy.parameter_server]
        | None
    ) = Field(default=None, description="How training is spread over workers; the program's own by default.")
    data: TorchData = Field(default=TorchData(), description="Where samples come from, and how they are augmented.")
    backend: Literal[Backend.auto, Backend.nccl, Backend.gloo] = Field(
        default=Backend.auto, description="The collective library; auto is NCCL on GPUs."
    )
    all_reduce: AllReduce = Field(
        default=AllReduce.auto, description="The algorithm that the collective library is told to use."
    )
    optimizer: TorchOptimizer = Field(default=TorchOptimizer(), description="The update rule.")
    options: TorchOptions = Field(default=TorchOptions(), description="Options of the program.")
    transfer: Transfer = Field(default=Transfer(), description="Start from trained parameters.")
    parameter_server: ParameterServerOptions = Field(
        default=ParameterServerOptions(), description="Settings of strategy parameter-server."
    )

    @property
    def resolved_strategy(self) -> Strategy:
        return self.strategy or Strategy.ddp

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or Launcher.torchrun

    @property
    def served(self) -> bool:
        """Whether parameter servers hold the parameters."""
        return self.strategy is Strategy.parameter_server

    @property
    def gradient_accumulation(self) -> int:
        return self.options.gradient_accumulation

    @property
    def batch_norm(self) -> BatchNormMode | None:
        """What happens to batch norm's running statistics; None where one process has them all."""
        return self.options.batch_norm or next(iter(BATCH_NORM.get(self.resolved_strategy, ())), None)

    def carrier(self, on_gpu: bool) -> str:
        if self.one_process:
            return "none"
        return TCP if self.served else resolved_backend(self.backend, on_gpu).value

    def wrapper(self) -> str:
        return WRAPPERS[self.resolved_strategy]

    @property
    def model_framework(self) -> Framework:
        return "torch"

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if self.resolved_strategy is Strategy.dp and self.device is DeviceType.cpu:
            yield self.problem("strategy", "another strategy on device cpu: DataParallel does nothing there")
        if self.launcher is Launcher.processes:
            yield self.problem("launcher", "torchrun or mpirun: plain processes of program torch are for tests")
        if self.all_reduce in PATTERNS:
            yield self.problem("allReduce", f"auto, ring or tree: {self.all_reduce} needs program allreduce")
        else:
            yield from algorithm_problem(self, self.all_reduce)
        yield from self._data_problems()
        yield from self._option_problems()
        yield from self._optimizer_problems()
        if self.served:
            yield from self._server_problems(workers)
        elif self.parameter_server != ParameterServerOptions():
            yield self.problem("parameterServer", "left out: it goes with strategy parameter-server")

    def accuracy_problems(self, accuracy: Accuracy, workers: int) -> Iterator[Problem]:
        strategy = self.resolved_strategy
        if strategy not in _FULL_REPLICA:
            for name, value in accuracy.extras.items():
                yield Problem((*ACCURACY, name), value, f"strategy {', '.join(_FULL_REPLICA)}; it is {strategy}")
        if not accuracy.noise_scale:
            return
        where = (*ACCURACY, "noiseScale")
        if strategy not in (Strategy.ddp, Strategy.single):
            yield Problem(where, True, f"strategy ddp or single; it is {strategy}")
        elif self.options.comm_hook is not CommHook.none:
            yield Problem(where, True, f"commHook none: DDP takes one hook, and it is {self.options.comm_hook}")
        elif workers == 1 and self.options.gradient_accumulation == 1:
            allowed = "workload.options.gradientAccumulation of 2 or more where a point has 1 worker"
            yield Problem(where, True, f"{allowed}: one gradient a step has no other to compare with")

    def _data_problems(self) -> Iterator[Problem]:
        data, train = self.data, self.transfer.train
        if data.validation is not None and data.source is not DataSource.image_folder:
            yield self.problem("data.validation", "left out: source image-folder alone has no split of its own")
        if data.shape is not None and data.cutout > max(data.shape[-2:]):
            yield self.problem("data.cutout", f"at most the side of an image, {max(data.shape[-2:])}")
        if train is Trainable.scratch or self.transfer == Transfer() or self.resolved_strategy in _FULL_REPLICA:
            return
        field = "checkpoint" if self.transfer.checkpoint is not None else "train"
        strategies = ", ".join(_FULL_REPLICA)
        yield self.problem(f"transfer.{field}", f"strategy {strategies}; it is {self.resolved_strategy}")

    def _option_problems(self) -> Iterator[Problem]:
        options, strategy, defaults = self.options, self.resolved_strategy, TorchOptions()
        if options.comm_hook is not CommHook.none and strategy is not Strategy.ddp:
            yield self.problem("options.commHook", "none: compression goes with strategy ddp")
        for field, belongs, owner in (
            ("comm_hook_rank", options.comm_hook is CommHook.powersgd, "commHook powersgd"),
            ("comm_hook_density", options.comm_hook is CommHook.top_k, "commHook top-k"),
            ("fsdp_group_mb", strategy is Strategy.fsdp, "strategy fsdp"),
            ("keep_threads", strategy is Strategy.dp, "strategy dp"),
        ):
            if not belongs and getattr(options, field) != getattr(defaults, field):
                alias = TorchOptions.model_fields[field].alias
                yield self.problem(f"options.{alias}", f"left out: it goes with {owner}")
        yield from self._batch_norm_problems()
        if options.static_graph and strategy not in (Strategy.ddp, Strategy.single, Strategy.parameter_server):
            yield self.problem("options.staticGraph", f"false for strategy {strategy}")
        elif options.static_graph and options.compile:
            # pytorch/pytorch#93672
            yield self.problem("options.staticGraph", "false with compile: DDP's static graph is eager only")
        if strategy is Strategy.dp and options.compile:
            yield self.problem("options.compile", "false for strategy dp: it makes new replicas in every step")

    def _batch_norm_problems(self) -> Iterator[Problem]:
        mode, strategy = self.options.batch_norm, self.resolved_strategy
        if mode is None:
            return
        allowed = BATCH_NORM.get(strategy, ())
        if mode not in allowed:
            text = f"one of {', '.join(allowed)}" if allowed else "left out: one process has all the statistics,"
            yield self.problem("options.batchNorm", f"{text} for strategy {strategy}")
        elif mode is BatchNormMode.synchronized and self.device is DeviceType.cpu:
            yield self.problem("options.batchNorm", "broadcast or local on device cpu: synchronized needs GPUs")

    def _optimizer_problems(self) -> Iterator[Problem]:
        name, strategy = self.optimizer.name, self.resolved_strategy
        if name in ("lars", "lamb") and strategy in (Strategy.fsdp, Strategy.parameter_server):
            reason = f"{strategy} splits layers, and {name} needs each layer's norm"
            yield self.problem("optimizer.name", f"sgd, adamw or adagrad: {reason}")
        if self.served and not self.optimizer.decay_norm:
            yield self.problem("optimizer.decayNorm", "true: a server holds its parameters as one vector")
        for allowed in self.optimizer.wrong_milestones():
            yield self.problem("optimizer.milestones", allowed)

    def _server_problems(self, workers: int) -> Iterator[Problem]:
        servers = self.parameter_server
        synchronous = servers.updates is Updates.synchronous
        field = "parameterServer.backupWorkers"
        if self.backend is not Backend.auto:
            yield self.problem("backend", "auto: workers reach parameter servers over TCP")
        if servers.backup_workers and not synchronous:
            yield self.problem(field, "0: asynchronous updates wait for no worker")
        elif servers.backup_workers >= workers > 1:
            yield self.problem(field, f"fewer than the {workers} workers of every point")
        elif servers.backup_workers and servers.servers > 1:
            # Each server would drop the gradients that came last to it, and no sample would be counted correctly.
            yield self.problem(field, f"0 with {servers.servers} servers, or servers: 1")
        if servers.staleness_aware and synchronous:
            yield self.problem("parameterServer.stalenessAware", "false: synchronous updates are never stale")
