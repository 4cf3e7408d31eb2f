"""``program: torch``: a model of the catalog trained by PyTorch, with its own ways to spread over workers."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.problem import Problem
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.collectives import PATTERNS, AllReduce, algorithm_problem, resolved_backend
from scalecurve_api.programs.mesh_rules import mesh_problems
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.torch_options import (
    BatchNormMode,
    CommHook,
    ParameterServerOptions,
    TorchOptions,
    Updates,
)
from scalecurve_api.programs.training import Trainable, TrainingWorkload, Transfer
from scalecurve_api.programs.workload import ACCURACY, Backend, DeviceType, Launcher, Precision, Strategy

TCP = "tcp"  # what carries gradients to the parameter servers

TorchStrategy = Literal[
    Strategy.ddp,
    Strategy.single,
    Strategy.dp,
    Strategy.fsdp,
    Strategy.zero1,
    Strategy.deepspeed_zero1,
    Strategy.deepspeed_zero2,
    Strategy.deepspeed_zero3,
    Strategy.parameter_server,
    Strategy.mesh,
]
DEEPSPEED = (Strategy.deepspeed_zero1, Strategy.deepspeed_zero2, Strategy.deepspeed_zero3)
"""By the stage of ZeRO: optimizer state is shared out, then gradients too, then parameters too."""

WRAPPERS: dict[Strategy, str] = {
    Strategy.single: "none",
    Strategy.ddp: "DistributedDataParallel",
    Strategy.dp: "DataParallel",
    Strategy.fsdp: "FSDPModule",
    Strategy.zero1: "DistributedDataParallel + ZeroRedundancyOptimizer",
    **{strategy: f"DeepSpeedEngine, ZeRO-{stage}" for stage, strategy in enumerate(DEEPSPEED, 1)},
    Strategy.parameter_server: "ParameterServer",
    Strategy.mesh: "DeviceMesh",
}
"""Strategy -> what ``RankRecord.strategy`` must say."""

_FULL_REPLICA = (Strategy.single, Strategy.ddp, Strategy.dp, Strategy.zero1)
"""Strategies whose every process holds all parameters."""

_ANOTHER_DEFAULT = {
    Strategy.ddp: "gradient_as_bucket_view",
    Strategy.zero1: "gradient_as_bucket_view",
    Strategy.dp: "keep_threads",
    Strategy.fsdp: "fsdp_group_mb",
}
"""Strategy -> the option whose default was another one in workers of before: it is always sent."""

BATCH_NORM: dict[Strategy, tuple[BatchNormMode, ...]] = {
    Strategy.ddp: (BatchNormMode.broadcast, BatchNormMode.local, BatchNormMode.synchronized),
    Strategy.zero1: (BatchNormMode.broadcast, BatchNormMode.local, BatchNormMode.synchronized),
    Strategy.fsdp: (BatchNormMode.local, BatchNormMode.synchronized),
    **dict.fromkeys(DEEPSPEED, (BatchNormMode.local,)),
    Strategy.parameter_server: (BatchNormMode.local,),
    Strategy.mesh: (BatchNormMode.local,),
}
"""What each strategy can do with batch norm's running statistics; the first is its default."""


class TorchWorkload(TrainingWorkload):
    """A model of the catalog trained by PyTorch."""

    runs: ClassVar[str] = "scalecurve_worker.torch.program:run"
    requires: ClassVar[str] = "torch"
    model_framework: ClassVar[Framework] = "torch"
    traceable: ClassVar[bool] = True

    program: Literal["torch"] = "torch"
    strategy: TorchStrategy | None = None
    """How training is spread over workers; the program's own by default."""
    backend: Literal[Backend.auto, Backend.nccl, Backend.gloo] = Backend.auto
    """The collective library; auto is NCCL on GPUs."""
    all_reduce: AllReduce = AllReduce.auto
    """The algorithm that the collective library is told to use."""
    options: TorchOptions = Field(default=TorchOptions(), description="Options of the program.")
    parameter_server: ParameterServerOptions = ParameterServerOptions()
    """Settings of strategy parameter-server."""
    parallelism: Parallelism | None = None
    """Strategy mesh: workers in each dimension of parallelism; without a strategy, it means mesh."""

    @property
    def resolved_strategy(self) -> Strategy:
        return self.strategy or (Strategy.ddp if self.parallelism is None else Strategy.mesh)

    @property
    def layout(self) -> Parallelism | None:
        return (self.parallelism or Parallelism()) if self.resolved_strategy is Strategy.mesh else None

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

    @property
    def always_sent(self) -> tuple[str, ...]:
        field = _ANOTHER_DEFAULT.get(self.resolved_strategy)
        return (f"options.{TorchOptions.model_fields[field].alias}",) if field else ()

    def copies(self, workers: int) -> int:
        """Copies of the model that the shards of all workers make up, where workers hold shards."""
        shard = self.options.shard
        return workers // shard if self.resolved_strategy is Strategy.fsdp and shard else 1

    def carrier(self, on_gpu: bool) -> str:
        if self.one_process:
            return "none"
        return TCP if self.served else resolved_backend(self.backend, on_gpu).value

    def wrapper(self) -> str:
        return WRAPPERS[self.resolved_strategy]

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
        yield from self._transfer_problems()
        yield from self._option_problems(workers)
        yield from self._optimizer_problems()
        if self.resolved_strategy in DEEPSPEED:
            yield from self._deepspeed_problems()
        if self.layout is not None:
            for field, allowed in mesh_problems(self, self.options, self.layout, workers):
                yield self.problem(field, allowed)
        elif self.parallelism is not None:
            yield self.problem("strategy", "mesh, or left out, beside parallelism")
        if self.served:
            yield from self._server_problems(workers)
        elif self.parameter_server != ParameterServerOptions():
            yield self.problem("parameterServer", "left out: it goes with strategy parameter-server")

    def accuracy_problems(self, accuracy: Accuracy, workers: int) -> Iterator[Problem]:
        strategy = self.resolved_strategy
        if strategy in (*DEEPSPEED, Strategy.mesh):
            yield Problem(ACCURACY, accuracy.wire(), f"left out: strategy {strategy} is only timed")
            return
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

    def _transfer_problems(self) -> Iterator[Problem]:
        if (
            self.transfer.train is Trainable.scratch
            or self.transfer == Transfer()
            or self.resolved_strategy in _FULL_REPLICA
        ):
            return
        field = "checkpoint" if self.transfer.checkpoint is not None else "train"
        strategies = ", ".join(_FULL_REPLICA)
        yield self.problem(f"transfer.{field}", f"strategy {strategies}; it is {self.resolved_strategy}")

    def _option_problems(self, workers: int) -> Iterator[Problem]:
        options, strategy, defaults = self.options, self.resolved_strategy, TorchOptions()
        if options.comm_hook is not CommHook.none and strategy is not Strategy.ddp:
            yield self.problem("options.commHook", "none: compression goes with strategy ddp")
        for field, belongs, owner in (
            ("comm_hook_rank", options.comm_hook is CommHook.powersgd, "commHook powersgd"),
            ("comm_hook_density", options.comm_hook is CommHook.top_k, "commHook top-k"),
            ("overlap", strategy is Strategy.ddp, "strategy ddp"),
            ("fsdp_group_mb", strategy is Strategy.fsdp, "strategy fsdp"),
            ("shard", strategy is Strategy.fsdp, "strategy fsdp"),
            ("keep_threads", strategy is Strategy.dp, "strategy dp"),
        ):
            if not belongs and getattr(options, field) != getattr(defaults, field):
                alias = TorchOptions.model_fields[field].alias
                yield self.problem(f"options.{alias}", f"left out: it goes with {owner}")
        if not options.overlap and options.bucket_cap_mb is not None:
            yield self.problem("options.bucketCapMb", "left out with overlap false: all gradients are one bucket")
        if options.shard and workers % options.shard and strategy is Strategy.fsdp:
            yield self.problem("options.shard", f"0, or a divisor of the {workers} workers of every point")
        if allowed := options.recomputation_problem(self.model):
            yield self.problem("options.activationCheckpointing", allowed)
        if options.deterministic and options.cudnn_benchmark:
            yield self.problem("options.cudnnBenchmark", "left out or false with deterministic: it times and chooses")
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
        if name in ("lars", "lamb") and strategy in (
            Strategy.fsdp,
            Strategy.parameter_server,
            Strategy.mesh,
            *DEEPSPEED,
        ):
            reason = f"{strategy} splits layers, and {name} needs each layer's norm"
            yield self.problem("optimizer.name", f"a rule other than lars and lamb: {reason}")
        if self.served and not self.optimizer.decay_norm:
            yield self.problem("optimizer.decayNorm", "true: a server holds its parameters as one vector")

    def _deepspeed_problems(self) -> Iterator[Problem]:
        strategy = self.resolved_strategy
        if self.precision is Precision.fp16:
            yield self.problem("precision", f"fp32, tf32 or bf16 for strategy {strategy}")
        if self.options.compile:
            yield self.problem("options.compile", f"false for strategy {strategy}")

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
