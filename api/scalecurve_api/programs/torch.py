"""``program: torch``: a model of the catalog trained by PyTorch, with its own ways to spread over workers."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.problem import Problem, expected, forbidden, one_of, only_with, unsupported
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
    worker_image: ClassVar[str] = "torch"
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
    def parameter_servers(self) -> ParameterServerOptions | None:
        return self.parameter_server if self.served else None

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
            reason = "on device cpu, where DataParallel does nothing"
            yield self.problem("strategy", unsupported(reason, "another strategy"))
        if self.launcher is Launcher.processes:
            yield self.problem("launcher", unsupported("with program torch", "torchrun or mpirun"))
        if self.all_reduce in PATTERNS:
            where = f"with program {self.program}, only with program allreduce"
            yield self.problem("allReduce", unsupported(where, "auto, ring or tree"))
        else:
            yield from algorithm_problem(self, self.all_reduce)
        yield from self._transfer_problems()
        yield from self._option_problems(workers)
        yield from self._optimizer_problems()
        if self.resolved_strategy in DEEPSPEED:
            yield from self._deepspeed_problems()
        if self.layout is not None:
            for field, violation in mesh_problems(self, self.options, self.layout, workers):
                yield self.problem(field, violation)
        elif self.parallelism is not None:
            yield self.problem("strategy", unsupported("beside parallelism", "mesh"))
        if self.served:
            yield from self._server_problems(workers)
        elif self.parameter_server != ParameterServerOptions():
            yield self.problem("parameterServer", only_with("strategy parameter-server"))

    def accuracy_problems(self, accuracy: Accuracy, workers: int) -> Iterator[Problem]:
        strategy = self.resolved_strategy
        if strategy in (*DEEPSPEED, Strategy.mesh):
            yield Problem(ACCURACY, accuracy.wire(), forbidden(f"strategy {strategy} is only timed"))
            return
        if strategy not in _FULL_REPLICA:
            for name, value in accuracy.extras.items():
                yield Problem((*ACCURACY, name), value, only_with(f"strategy {one_of(_FULL_REPLICA)}"))
        if not accuracy.noise_scale:
            return
        where = (*ACCURACY, "noiseScale")
        if strategy not in (Strategy.ddp, Strategy.single):
            yield Problem(where, True, only_with("strategy ddp or single"))
        elif self.options.comm_hook is not CommHook.none:
            reason = f"DDP takes one hook, and commHook {self.options.comm_hook} is one"
            yield Problem(where, True, forbidden(reason))
        elif workers == 1 and self.options.gradient_accumulation == 1:
            reason = "one gradient per step has no other to compare with; set options.gradientAccumulation to 2 or more"
            yield Problem(where, True, unsupported(f"with 1 worker: {reason}"))

    def _transfer_problems(self) -> Iterator[Problem]:
        if (
            self.transfer.train is Trainable.scratch
            or self.transfer == Transfer()
            or self.resolved_strategy in _FULL_REPLICA
        ):
            return
        field = "checkpoint" if self.transfer.checkpoint is not None else "train"
        yield self.problem(f"transfer.{field}", only_with(f"strategy {one_of(_FULL_REPLICA)}"))

    def _option_problems(self, workers: int) -> Iterator[Problem]:
        options, strategy, defaults = self.options, self.resolved_strategy, TorchOptions()
        if options.comm_hook is not CommHook.none and strategy is not Strategy.ddp:
            yield self.problem("options.commHook", unsupported(f"with strategy {strategy}, only with ddp", "none"))
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
                yield self.problem(f"options.{alias}", only_with(owner))
        if not options.overlap and options.bucket_cap_mb is not None:
            yield self.problem("options.bucketCapMb", forbidden("with overlap false all gradients are one bucket"))
        if options.shard and workers % options.shard and strategy is Strategy.fsdp:
            yield self.problem("options.shard", expected(f"a divisor of {workers}, the workers of a point, or 0"))
        if violation := options.recomputation_problem(self.model):
            yield self.problem("options.activationCheckpointing", violation)
        if options.deterministic and options.cudnn_benchmark:
            reason = "with deterministic, since it times algorithms and takes the fastest"
            yield self.problem("options.cudnnBenchmark", unsupported(reason, "false"))
        yield from self._batch_norm_problems()
        if options.static_graph and strategy not in (Strategy.ddp, Strategy.single, Strategy.parameter_server):
            yield self.problem("options.staticGraph", unsupported(f"with strategy {strategy}", "false"))
        elif options.static_graph and options.compile:
            # pytorch/pytorch#93672
            yield self.problem("options.staticGraph", unsupported("with compile", "false"))
        if strategy is Strategy.dp and options.compile:
            yield self.problem(
                "options.compile", unsupported("with strategy dp, which makes new replicas each step", "false")
            )

    def _batch_norm_problems(self) -> Iterator[Problem]:
        mode, strategy = self.options.batch_norm, self.resolved_strategy
        if mode is None:
            return
        allowed = BATCH_NORM.get(strategy, ())
        if mode not in allowed:
            if allowed:
                yield self.problem("options.batchNorm", unsupported(f"with strategy {strategy}", one_of(allowed)))
            else:
                reason = f"with strategy {strategy} one process has all the statistics"
                yield self.problem("options.batchNorm", forbidden(reason))
        elif mode is BatchNormMode.synchronized and self.device is DeviceType.cpu:
            yield self.problem("options.batchNorm", unsupported("on device cpu", "broadcast or local"))

    def _optimizer_problems(self) -> Iterator[Problem]:
        name, strategy = self.optimizer.name, self.resolved_strategy
        if name in ("lars", "lamb") and strategy in (
            Strategy.fsdp,
            Strategy.parameter_server,
            Strategy.mesh,
            *DEEPSPEED,
        ):
            reason = f"with strategy {strategy}, which splits layers: {name} needs each layer's norm"
            yield self.problem("optimizer.name", unsupported(reason, "another optimizer"))
        if self.served and not self.optimizer.decay_norm:
            reason = f"with strategy {strategy}, whose servers hold parameters as one vector"
            yield self.problem("optimizer.decayNorm", unsupported(reason, "true"))

    def _deepspeed_problems(self) -> Iterator[Problem]:
        strategy = self.resolved_strategy
        if self.precision is Precision.fp16:
            yield self.problem("precision", unsupported(f"with strategy {strategy}", "fp32, tf32 or bf16"))
        if self.options.compile:
            yield self.problem("options.compile", unsupported(f"with strategy {strategy}", "false"))

    def _server_problems(self, workers: int) -> Iterator[Problem]:
        servers = self.parameter_server
        synchronous = servers.updates is Updates.synchronous
        field = "parameterServer.backupWorkers"
        if self.backend is not Backend.auto:
            yield self.problem("backend", unsupported("with parameter servers, which workers reach over TCP", "auto"))
        if servers.backup_workers and not synchronous:
            yield self.problem(field, unsupported("with asynchronous updates, which wait for no worker", "0"))
        elif servers.backup_workers >= workers > 1:
            yield self.problem(field, expected(f"fewer than {workers}, the workers of a point"))
        elif servers.backup_workers and servers.servers > 1:
            # Each server would drop the gradients that came last to it, and no sample would be counted correctly.
            yield self.problem(field, unsupported(f"with {servers.servers} servers", "0, or servers: 1"))
        if servers.staleness_aware and synchronous:
            reason = "with synchronous updates, which are never stale"
            yield self.problem("parameterServer.stalenessAware", unsupported(reason, "false"))
