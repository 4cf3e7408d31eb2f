"""What runs in every worker: the fields that all programs share, and what the rest of the project asks of a program.

``program`` says which class a workload is of. Each program's module has its class: the fields it adds, its
legality, and what its runs must report. Another package adds a program by an entry point in ``scalecurve.programs``
that names a subclass of ``Workload``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, get_origin

from pydantic import Field, ModelWrapValidatorHandler, StringConstraints, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from scalecurve_api.model import Described, Model, Scalar, model_in
from scalecurve_api.problem import Path, Problem, Violation, forbidden, unsupported
from scalecurve_api.programs.data import Data
from scalecurve_api.programs.degrees import StatedLayout
from scalecurve_api.programs.env_source import EnvSource, Variable
from scalecurve_api.programs.installation import is_installed, lacking
from scalecurve_api.programs.model_catalog import Framework
from scalecurve_api.programs.strategy import Servers, Strategy
from scalecurve_api.registry import Registry, RegistryError

# No program can be started with a NUL in its arguments or its environment.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
DEFAULT_PROGRAM = "torch"


class Precision(StrEnum):
    """Arithmetic of the forward and backward pass; tf32 is fp32 storage with TF32 matrix units."""

    fp32 = "fp32"
    tf32 = "tf32"
    bf16 = "bf16"
    fp16 = "fp16"


class DeviceType(StrEnum):
    """What one worker drives."""

    auto = "auto"
    gpu = "gpu"
    cpu = "cpu"


class Backend(StrEnum):
    """The collective library."""

    auto = "auto"
    nccl = "nccl"
    gloo = "gloo"
    mpi = "mpi"


class Launcher(StrEnum):
    """How the processes of a trial are started on one machine."""

    torchrun = "torchrun"
    mpirun = "mpirun"
    processes = "processes"


class Workload(Described):
    """What runs in every worker: a built-in program, or the user's own image and command."""

    runs: ClassVar[str] = ""
    """``module:function`` that carries out a trial on one rank; empty where the trial names a command."""
    requires: ClassVar[str] = ""
    """The framework that must be importable where it runs."""
    worker_image: ClassVar[str] = ""
    """Which of the project's worker images has all that it needs; empty where the trial or the operator names one."""
    takes_batch: ClassVar[bool] = True
    """Whether it trains on batches of the size that the experiment sets."""
    counts_samples: ClassVar[bool] = True
    """Whether each window must have exactly steps x batch samples."""

    traceable: ClassVar[bool] = False
    """Whether torch's profiler sees its steps."""
    built_in: ClassVar[bool] = False
    """Whether its training loop is ours, and so one training job by construction."""
    for_strategies: ClassVar[tuple[str, ...]] = ()
    """Fields that only some of its strategies read: set beside others, no mistake if the strategy is an axis."""
    strategies: ClassVar[Registry[Any] | None] = None
    """Its ways to spread training over workers, if it has several: entries are ``Strategy`` of a kind of its own."""

    program: str = Field(description="The training program, or custom for your own command.")
    model: str = Field(default="resnet18", min_length=1, max_length=100, description="Name of the model.")
    data: Data = Field(default=Data(), description="Where samples come from, and their shape.")
    precision: Precision = Field(default=Precision.fp32, description="Arithmetic of the forward and backward pass.")
    device: DeviceType = Field(default=DeviceType.auto, description="What one worker drives; auto prefers a GPU.")
    backend: Backend = Field(default=Backend.auto, description="The collective library; auto is NCCL on GPUs.")
    launcher: Launcher | None = None
    """What starts the processes on one machine; the program's own by default."""
    image: str | None = Field(default=None, min_length=1, max_length=500)
    """Container image; the operator's own by default."""
    env: dict[Variable, Text] = Field(default={}, max_length=200, description="Environment variables of every process.")
    env_from: list[EnvSource] = Field(default=[], max_length=100)
    """Further variables, from Secrets and ConfigMaps."""

    @model_validator(mode="wrap")
    @classmethod
    def _dispatch(cls, value: Any, handler: ModelWrapValidatorHandler[Workload]) -> Workload:
        if cls is not Workload or not isinstance(value, dict):
            return handler(value)
        name = value.get("program", DEFAULT_PROGRAM)
        if name not in PROGRAMS:
            expected = ", ".join(map(repr, PROGRAMS.names()))
            detail = InitErrorDetails(type="enum", loc=("program",), input=name, ctx={"expected": expected})
            raise ValidationError.from_exception_data("Workload", [detail])
        try:
            kind = PROGRAMS.get(name)
        except RegistryError as error:
            raise ValueError(str(error)) from error
        return kind.model_validate(value)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a program whose name would get lost where defaults are omitted."""
        field = cls.model_fields["program"]
        named = get_origin(field.annotation) is Literal
        if named and not field.is_required() and field.default != DEFAULT_PROGRAM:
            raise TypeError(f"{cls.__name__}.program must have no default: trials are sent without defaults")

    @classmethod
    def strategy_named(cls, name: object) -> Strategy | None:
        """Return the program's strategy of this name; None without one that can be loaded, which validation reports."""
        if cls.strategies is None or not isinstance(name, str) or name not in cls.strategies:
            return None
        try:
            strategy: Strategy = cls.strategies.get(name)
        except RegistryError:
            return None
        return strategy

    @classmethod
    def further_options(cls) -> Iterator[type[Model]]:
        """Yield the models of ``options`` under strategies that have fields of their own."""
        for strategy in cls.strategies.loadable().values() if cls.strategies is not None else ():
            if strategy.options is not model_in(cls.model_fields["options"].annotation):
                yield strategy.options

    @classmethod
    def of_command(cls, words: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
        """Make its fields of a command that does the same, and list options that have none; None of any other."""
        return None

    @property
    def reported(self) -> bool:
        """Whether times of steps are what the program prints, and nothing of the run is observed."""
        return False

    @property
    def resolved_strategy(self) -> Strategy | None:
        """The strategy that runs: the one that is named, or else the program's default."""
        return None

    @property
    def layout(self) -> StatedLayout | None:
        """How the workers are divided into dimensions of parallelism; None where every worker takes its own batch."""
        return None

    @property
    def resolved_launcher(self) -> Launcher:
        return self.launcher or Launcher.processes

    @property
    def entry(self) -> tuple[str, str]:
        """What runs it and what must be importable, by its settings: ``runs`` and ``requires`` unless these differ."""
        return self.runs, self.requires

    def not_installed(self) -> str | None:
        """Name what this Python lacks to run it on this machine, and the field that needs it; None if nothing."""
        if self.requires and not is_installed(self.requires):
            return lacking("program", self.program, self.requires)
        if self.resolved_launcher is Launcher.torchrun and not is_installed("torch"):
            return lacking("launcher", "torchrun", "torch")
        return None

    @property
    def host_only(self) -> bool:
        """Whether it drives no GPU, even where there are some."""
        return False

    @property
    def command_fields(self) -> Mapping[str, Sequence[str]]:
        """The user's command by the fields that hold its words; empty for a program that is a function."""
        return {}

    @property
    def words(self) -> list[str]:
        """All that is started: the command with its arguments; nothing for a program that is a function."""
        return [word for words in self.command_fields.values() for word in words]

    def texts(self) -> Iterator[tuple[Path, str]]:
        """Every text in which a placeholder stands for a value of the point, by its field."""
        yield from ()

    @property
    def is_handed_batch(self) -> bool:
        """Whether a placeholder hands the command its batch."""
        return False

    @property
    def own_values(self) -> Mapping[str, Scalar]:
        """Values under names of the user's, or of the source of imported numbers."""
        return {}

    @property
    def exchange_every(self) -> int | None:
        """Steps from one exchange of the ranks to the next; None where they exchange in every step."""
        return None

    @property
    def declares_same_data(self) -> bool:
        """Whether workers read the same data on purpose."""
        return False

    @property
    def variation_reasons(self) -> Sequence[str]:
        """Why the work of a sample varies on purpose."""
        return ()

    @property
    def freezes_layers(self) -> bool:
        """Whether only the last layer is trained."""
        return False

    @property
    def tokens_per_sample(self) -> int | None:
        """Tokens of one sequence of a language model of the catalog; None of any other program."""
        return None

    @property
    def parameter_servers(self) -> Servers | None:
        """Servers that hold the parameters, if the first rank starts any."""
        return None

    def calls(self) -> int | None:
        """Count the calls that a trial makes in place of steps; None of a program with steps."""
        return None

    def copies(self, workers: int) -> int:
        """Copies of the model that the shards of all workers make up, where workers hold shards."""
        return 1

    @property
    def needs_mpirun(self) -> bool | None:
        """Whether its job must start ranks with mpirun (True) or must not (False)."""
        return True if self.resolved_launcher is Launcher.mpirun else None

    @property
    def one_process(self) -> bool:
        """Whether one process drives every worker."""
        return self.resolved_strategy is not None and self.resolved_strategy.one_process

    def processes(self, workers: int) -> int:
        """Processes that carry ``workers`` workers of one machine or one pod."""
        return 1 if self.one_process else workers

    @property
    def knows_own_batch(self) -> bool:
        """Whether weak scaling needs no batch per worker: the program has its own, and its samples are counted."""
        return False

    @property
    def gradient_accumulation(self) -> int:
        """Parts that the batch of each worker must divide into."""
        return 1

    @property
    def batch_divisor(self) -> str:
        """What states ``gradient_accumulation``, for a message."""
        return "gradientAccumulation"

    @property
    def roles(self) -> tuple[str, ...]:
        """Processes of a trial that are no workers, by their ``SCALECURVE_ROLE``; the first one keeps the record."""
        return ()

    @property
    def always_sent(self) -> tuple[str, ...]:
        """Fields that a worker is sent with their defaults, too, since an older one has others: ``options.shard``."""
        return ()

    def carrier(self, on_gpu: bool) -> str | None:
        """What must carry the sums, as ``RankRecord.backend``; None where it is not checked."""
        return None

    def wrapper(self) -> str | None:
        """What ``RankRecord.strategy`` must say; None where it is not checked."""
        return self.resolved_strategy.wrapper if self.resolved_strategy is not None else None

    @property
    def model_framework(self) -> Framework | None:
        """The framework that builds the model; None where the program decides what ``model`` means."""
        return None

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        """Every rule that this workload breaks on ``workers`` workers of ``nodes`` nodes.

        What is settled only on the machine (``auto``) is not judged here.
        """
        strategy, cpu = self.resolved_strategy, self.device is DeviceType.cpu
        if strategy is not None and strategy.one_worker and workers > 1:
            yield self.problem("strategy", unsupported(f"with {workers} workers, only with 1"))
        if strategy is not None and (strategy.one_worker or strategy.one_process) and nodes > 1:
            yield self.problem("strategy", unsupported(f"on {nodes} nodes, only on 1"))
        if cpu and self.backend is Backend.nccl:
            yield self.problem("backend", unsupported("on device cpu", "gloo or mpi"))
        if cpu and self.precision in (Precision.tf32, Precision.fp16):
            yield self.problem("precision", unsupported("on device cpu", "fp32 or bf16"))
        if self.layout is not None:
            for field, violation in self.layout.problems(workers):
                yield self.problem(f"parallelism.{field}", violation)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its processes get besides the contract's; the user's are among them."""
        return self.env

    def unmeasured(self, part: str, workers: int) -> Violation | None:
        """Say why it does not do an optional part of a measurement, such as ``checkpoints``; None if it does."""
        return forbidden(f"program {self.program} does not measure it")

    def problem(self, field: str, violation: Violation) -> Problem:
        """Place a violation at one field of the workload, named as in YAML: ``options.commHook``."""
        value = str(self.resolved_strategy) if field == "strategy" else self.field_value(field)
        return Problem(("spec", "workload", *field.split(".")), value, violation)


PROGRAMS: Registry[type[Workload]] = Registry(
    "scalecurve.programs",
    "program",
    Workload,
    {
        "torch": "scalecurve_api.programs.torch:TorchWorkload",
        "custom": "scalecurve_api.programs.custom:CustomWorkload",
    },
    {"imported": "scalecurve_api.programs.imported:ImportedWorkload"},
)
