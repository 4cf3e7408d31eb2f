"""``program: torch``: a model of the catalog trained by PyTorch, with its own ways to spread over workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from scalecurve_api.problem import Problem, Violation, forbidden, one_of, only_with, unsupported
from scalecurve_api.programs.all_reduce import PATTERNS, AllReduce, algorithm_problem, resolved_backend
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.strategy import NameIn, Strategy, named
from scalecurve_api.programs.torch_options import (
    BatchNormMode,
    CommHook,
    ParameterServerOptions,
    TorchOptions,
    TrainingOptions,
)
from scalecurve_api.programs.training import Trainable, TrainingWorkload, Transfer
from scalecurve_api.programs.workload import Backend, DeviceType, Launcher
from scalecurve_api.registry import Registry


@dataclass(frozen=True)
class Division:
    """By how much each kind of state is divided over workers."""

    parameters: int = 1
    gradients: int = 1
    optimizer: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchStrategy(Strategy):
    """A strategy of program torch; another package adds one by an entry point in ``scalecurve.torch_strategies``.

    Its other half, which wraps the model, is an entry of ``scalecurve_worker.torch_strategies`` of the same name.
    """

    options: type[TorchOptions] = TorchOptions
    own_options: tuple[str, ...] = ()  # fields of TorchOptions that other strategies must leave at their defaults
    always_sent: tuple[str, ...] = ()  # options whose default was another one in earlier workers
    batch_norm: tuple[BatchNormMode, ...] = ()  # the first is the default; empty if one process has all statistics
    full_replica: bool = False  # every process holds all parameters
    splits_layers: bool = False
    noise_scale: bool = False
    comm_hooks: bool = False
    static_graph: bool = False
    gathers: bool = False  # parameters are gathered for each block, as FSDP does
    buckets: bool = False  # gradients are copied into DDP's buckets
    served: bool = False  # parameter servers hold the parameters

    def carrier(self, workload: "TorchWorkload", on_gpu: bool) -> str:
        """Name what must carry the sums, as ``RankRecord.backend``."""
        return "none" if self.one_process else resolved_backend(workload.backend, on_gpu).value

    def copies(self, workload: "TorchWorkload", workers: int) -> int:
        """Count the copies of the model that the shards of all workers make up, if workers hold shards."""
        return 1

    def division(self, workload: "TorchWorkload", workers: int) -> Division | None:
        """Say how state is divided over workers; None if the memory of a worker is not estimated."""
        return Division()

    def exchange_every(self, workload: "TorchWorkload") -> int | None:
        """Count the steps from one exchange to the next, if workers train by themselves in between."""
        return None

    def problems(self, workload: "TorchWorkload", workers: int) -> Iterator[Problem]:
        """Yield every rule of this strategy that the workload breaks."""
        yield from ()


TORCH_STRATEGIES: Registry[TorchStrategy] = Registry(
    "scalecurve.torch_strategies",
    "strategy of program torch",
    TorchStrategy,
    {
        "ddp": "scalecurve_api.programs.strategies.replicated:DDP",
        "single": "scalecurve_api.programs.strategies.replicated:SINGLE",
        "dp": "scalecurve_api.programs.strategies.replicated:DP",
        "fsdp": "scalecurve_api.programs.strategies.sharded:FSDP",
        "zero1": "scalecurve_api.programs.strategies.replicated:ZERO1",
    },
)


class TorchTraining(TrainingWorkload):
    """A model of the catalog trained by PyTorch, whatever spreads it over workers."""

    requires: ClassVar[str] = "torch"
    model_framework: ClassVar[Framework] = "torch"
    traceable: ClassVar[bool] = True

    if TYPE_CHECKING:  # each program declares it after fields of its own: their order is that of its documents
        options: TrainingOptions

    @property
    def gradient_accumulation(self) -> int:
        return self.options.gradient_accumulation

    @property
    def batch_norm(self) -> BatchNormMode | None:
        """What happens to batch norm's running statistics; None where one process has them all."""
        return self.options.batch_norm


class TorchWorkload(TorchTraining):
    """A model of the catalog trained by PyTorch, with its own strategies."""

    runs: ClassVar[str] = "scalecurve_worker.torch.program:run"
    worker_image: ClassVar[str] = "torch"
    for_strategies: ClassVar[tuple[str, ...]] = ("parameterServer",)
    strategies: ClassVar[Registry[TorchStrategy]] = TORCH_STRATEGIES

    program: Literal["torch"] = "torch"
    strategy: Annotated[str, NameIn(TORCH_STRATEGIES)] | None = None
    """How training is spread over workers; the program's own by default."""
    backend: Literal[Backend.auto, Backend.nccl, Backend.gloo] = Backend.auto
    """The collective library; auto is NCCL on GPUs."""
    all_reduce: AllReduce = AllReduce.auto
    """The algorithm that the collective library is told to use."""
    options: SerializeAsAny[TorchOptions] = Field(
        default=TorchOptions(), description="Options of the program.", validate_default=True
    )
    parameter_server: ParameterServerOptions = ParameterServerOptions()
    """Settings of strategy parameter-server."""
    parallelism: Parallelism | None = None
    """Strategy mesh: workers in each dimension of parallelism; without a strategy, it means mesh."""

    @field_validator("options", mode="wrap")
    @classmethod
    def _validate_options(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> TorchOptions:
        name = info.data.get("strategy")
        kind = TorchOptions if name is None else TORCH_STRATEGIES.get(name).options
        if kind is TorchOptions or isinstance(value, kind):
            options: TorchOptions = handler(value)
            return options
        return kind.model_validate(value.wire() if isinstance(value, TorchOptions) else value)

    @property
    def resolved_strategy(self) -> TorchStrategy:
        if self.strategy is not None:
            return TORCH_STRATEGIES.get(self.strategy)
        default = TORCH_STRATEGIES.get(next(iter(TORCH_STRATEGIES.built_in)))
        if self.parallelism is None:
            return default
        return next((strategy for strategy in TORCH_STRATEGIES.loadable().values() if strategy.lays_out), default)

    @property
    def layout(self) -> Parallelism | None:
        return (self.parallelism or Parallelism()) if self.resolved_strategy.lays_out else None

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or Launcher.torchrun

    @property
    def served(self) -> bool:
        """Whether parameter servers hold the parameters."""
        return self.resolved_strategy.served

    @property
    def parameter_servers(self) -> ParameterServerOptions | None:
        return self.parameter_server if self.served else None

    @property
    def batch_norm(self) -> BatchNormMode | None:
        return self.options.batch_norm or next(iter(self.resolved_strategy.batch_norm), None)

    @property
    def always_sent(self) -> tuple[str, ...]:
        return self.resolved_strategy.always_sent

    def copies(self, workers: int) -> int:
        return self.resolved_strategy.copies(self, workers)

    @property
    def exchange_every(self) -> int | None:
        return self.resolved_strategy.exchange_every(self)

    def carrier(self, on_gpu: bool) -> str:
        return self.resolved_strategy.carrier(self, on_gpu)

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if self.launcher is Launcher.processes:
            yield self.problem("launcher", unsupported("with program torch", "torchrun or mpirun"))
        if self.all_reduce in PATTERNS:
            where = f"with program {self.program}, only with program allreduce"
            yield self.problem("allReduce", unsupported(where, "auto, ring or tree"))
        else:
            yield from algorithm_problem(self, self.all_reduce)
        strategy = self.resolved_strategy
        yield from self._transfer_problems(strategy)
        yield from self._option_problems(strategy)
        yield from self._batch_norm_problems(strategy)
        if self.optimizer.name in ("lars", "lamb") and strategy.splits_layers:
            reason = f"with strategy {strategy}, which splits layers: {self.optimizer.name} needs each layer's norm"
            yield self.problem("optimizer.name", unsupported(reason, "another optimizer"))
        if self.parallelism is not None and not strategy.lays_out:
            yield self.problem(
                "strategy", unsupported("beside parallelism", one_of(named(self.strategies, "lays_out")))
            )
        if not strategy.served and self.parameter_server != ParameterServerOptions():
            yield self.problem("parameterServer", only_with(f"strategy {one_of(named(self.strategies, 'served'))}"))
        yield from strategy.problems(self, workers)

    def unmeasured(self, part: str, workers: int) -> Violation | None:
        flag = "noise_scale" if part == "noiseScale" else "full_replica"
        if not getattr(self.resolved_strategy, flag):
            return only_with(f"strategy {one_of(named(self.strategies, flag))}")
        if part == "noiseScale" and self.options.comm_hook is not CommHook.none:
            return forbidden(f"DDP takes one hook, and commHook {self.options.comm_hook} is one")
        if part == "noiseScale" and workers == 1 and self.options.gradient_accumulation == 1:
            reason = "one gradient per step has no other to compare with; set options.gradientAccumulation to 2 or more"
            return unsupported(f"with 1 worker: {reason}")
        return None

    def _transfer_problems(self, strategy: TorchStrategy) -> Iterator[Problem]:
        if self.transfer.train is Trainable.scratch or self.transfer == Transfer() or strategy.full_replica:
            return
        field = "checkpoint" if self.transfer.checkpoint is not None else "train"
        owners = one_of(named(self.strategies, "full_replica"))
        yield self.problem(f"transfer.{field}", only_with(f"strategy {owners}"))

    def _option_problems(self, strategy: TorchStrategy) -> Iterator[Problem]:
        options, fields = self.options, TorchOptions.model_fields
        if options.comm_hook is not CommHook.none and not strategy.comm_hooks:
            owners = one_of(named(self.strategies, "comm_hooks"))
            yield self.problem("options.commHook", unsupported(f"with strategy {strategy}, only with {owners}", "none"))
        hooks = (("comm_hook_rank", CommHook.powersgd), ("comm_hook_density", CommHook.top_k))
        owners_of = {field: f"commHook {hook}" for field, hook in hooks if options.comm_hook is not hook}
        for other in self.strategies.loadable().values():
            owners_of |= {
                field: f"strategy {other}" for field in other.own_options if field not in strategy.own_options
            }
        for field, owner in owners_of.items():
            if getattr(options, field) != fields[field].default:
                yield self.problem(f"options.{fields[field].alias}", only_with(owner))
        if not options.overlap and options.bucket_cap_mb is not None:
            yield self.problem("options.bucketCapMb", forbidden("with overlap false all gradients are one bucket"))
        if violation := options.recomputation_problem(self.model):
            yield self.problem("options.activationCheckpointing", violation)
        if options.deterministic and options.cudnn_benchmark:
            reason = "with deterministic, since it times algorithms and takes the fastest"
            yield self.problem("options.cudnnBenchmark", unsupported(reason, "false"))
        if options.static_graph and not strategy.static_graph:
            yield self.problem("options.staticGraph", unsupported(f"with strategy {strategy}", "false"))
        elif options.static_graph and options.compile:
            # pytorch/pytorch#93672
            yield self.problem("options.staticGraph", unsupported("with compile", "false"))

    def _batch_norm_problems(self, strategy: TorchStrategy) -> Iterator[Problem]:
        mode, allowed = self.options.batch_norm, strategy.batch_norm
        if mode is None:
            return
        if mode not in allowed:
            if allowed:
                yield self.problem("options.batchNorm", unsupported(f"with strategy {strategy}", one_of(allowed)))
            else:
                reason = f"with strategy {strategy} one process has all the statistics"
                yield self.problem("options.batchNorm", forbidden(reason))
        elif mode is BatchNormMode.synchronized and self.device is DeviceType.cpu:
            yield self.problem("options.batchNorm", unsupported("on device cpu", "broadcast or local"))
