"""A command of one's own, which the SDK times or whose output is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import lcm
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StringConstraints

from scalecurve_api.contract import INSTRUMENT_ENV, WORKING_DIR_ENV
from scalecurve_api.model import Scalar, Whole
from scalecurve_api.problem import NOTHING, Path, Problem, required, unsupported
from scalecurve_api.programs.log_format import KnownLog, LogFormat
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.workload import DeviceType, Launcher, Text, Workload

ParameterName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=64)]
DIVIDED_BATCH = r"\{(?P<batch>batchPerWorker|globalBatch)/(?P<by>[^{}]*)\}"
"""A part of a batch, of a program whose steps take several: ``{batchPerWorker/5}``."""


class Instrument(StrEnum):
    """How a command of one's own is timed."""

    auto = "auto"
    sdk = "sdk"
    log = "log"


class WorkVariation(StrEnum):
    """Why a sample may take other work at another worker count, or later in training, as its author means it."""

    pruning = "pruning"
    curriculum = "curriculum"
    token_batches = "token-batches"


class CustomWorkload(Workload):
    """The user's own command, which the SDK times."""

    worker_image: ClassVar[str] = "torch"
    counts_samples: ClassVar[bool] = False
    traceable: ClassVar[bool] = True

    program: Literal["custom"]
    command: list[Text] = Field(min_length=1, max_length=1000)
    """Command that starts one worker, such as [python, train.py, --batch, "{batchPerWorker}"]."""
    args: list[Text] = Field(default=[], max_length=1000)
    """Words that follow those of command, as in a pod."""
    instrument: Instrument = Instrument.auto
    """How steps are timed: auto hooks torch's optimizers, unless the script calls attach(); sdk expects attach(); log
    reads what the program prints."""
    log: LogFormat | None = None
    """What the command prints about its steps, for instrument log."""
    starts_ranks: StrictBool = False
    """Whether the command starts the ranks of its node itself, as JAX or a torchrun in it do: it runs once per node."""
    single_process: StrictBool = False
    """Whether one process drives all GPUs, as with nn.DataParallel: it runs once, sees them all, and reads their batch,
    {globalBatch}. On one node."""
    working_dir: Annotated[Text, Field(min_length=1)] | None = None
    """Folder that the command starts in; relative to the image's, or on one machine to where scalecurve was started."""
    parameters: dict[ParameterName, Scalar] = Field(default={}, max_length=100)
    """Values of your own: {name} in command, args, env and workingDir, and axes as parameters.NAME in matrix."""
    same_data: StrictBool = False
    """Declares that workers read the same data on purpose; without it such trials are Invalid."""
    work_varies: list[WorkVariation] = Field(default=[], max_length=len(WorkVariation))
    """Declares that the work of a sample varies on purpose: pruning (fewer parameters and FLOPs), curriculum (sequence
    length, resolution) or token-batches (batches of so many tokens). Points then count, and the difference is shown."""
    sync_every: Whole | None = Field(default=None, ge=2, le=1_000_000)
    """Steps from one exchange to the next of workers that train by themselves in between, as in local SGD and DiLoCo;
    windows and the warm-up hold whole periods."""
    parallelism: Parallelism | None = None
    """Workers in each dimension of parallelism, for the command's own {tensor}, {pipeline} and so on."""

    @property
    def command_fields(self) -> Mapping[str, Sequence[str]]:
        return {"command": self.command, "args": self.args}

    def texts(self) -> Iterator[tuple[Path, str]]:
        for field, words in self.command_fields.items():
            yield from (((field, index), word) for index, word in enumerate(words))
        yield from ((("env", name), text) for name, text in self.env.items())
        if self.working_dir:
            yield ("workingDir",), self.working_dir
        if self.log is not None and isinstance(self.log.tokens_per_sample, str):
            yield ("log", "tokensPerSample"), self.log.tokens_per_sample

    @property
    def own_values(self) -> Mapping[str, Scalar]:
        return self.parameters

    @property
    def declares_same_data(self) -> bool:
        return self.same_data

    @property
    def variation_reasons(self) -> Sequence[str]:
        return self.work_varies

    @property
    def batch_divisor(self) -> str:
        return f"parts of {{batchPerWorker/{self.gradient_accumulation}}}"

    @property
    def gradient_accumulation(self) -> int:
        """What the batch divides by wherever the command is handed a part of it."""
        texts = " ".join([*self.words, *self.env.values()])
        return lcm(*(int(by) for _, by in re.findall(DIVIDED_BATCH, texts) if by.isdecimal() and int(by)))

    @property
    def knows_own_batch(self) -> bool:
        """Whether its steps are counted, and nothing hands the command a batch, which may vary."""
        own = self.layout is None and not self.is_handed_batch and not self.single_process
        return self.instrument is Instrument.auto and own

    @property
    def is_handed_batch(self) -> bool:
        texts = " ".join([*self.words, *self.env.values()])
        return any(f"{{{name}" in texts for name in ("batchPerWorker", "globalBatch"))

    @property
    def layout(self) -> Parallelism | None:
        return self.parallelism

    @property
    def reported(self) -> bool:
        return self.instrument is Instrument.log

    @property
    def exchange_every(self) -> int | None:
        return self.sync_every

    @property
    def one_process(self) -> bool:
        return self.starts_ranks or self.single_process

    @property
    def needs_mpirun(self) -> bool | None:
        return False if self.one_process else super().needs_mpirun

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        if self.reported and self.log is None:
            formats = f"{{format: ...}} or {{pattern: ...}} for instrument log; formats: {', '.join(KnownLog)}"
            yield Problem(("spec", "workload", "log"), NOTHING, required(formats))
        if not self.reported and self.log is not None:
            yield self.problem("instrument", unsupported("beside workload.log", "log"))
        if self.starts_ranks and not self.reported:
            reason = f"with instrument {self.instrument}: of ranks that a command starts only its output is read"
            yield self.problem("startsRanks", unsupported(reason, "instrument log"))
        if self.starts_ranks and self.resolved_launcher is not Launcher.processes:
            yield self.problem("launcher", unsupported("beside startsRanks", "processes"))
        if self.single_process:
            yield from self._single_process_problems(workers, nodes)

    def _single_process_problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        """One process has no ranks to divide, and on CPUs one device."""
        if self.reported:
            yield self.problem("singleProcess", unsupported("with instrument log", "startsRanks"))
        if self.layout is not None:
            yield self.problem("singleProcess", unsupported("beside parallelism"))
        if self.resolved_launcher is not Launcher.processes:
            yield self.problem("launcher", unsupported("beside singleProcess", "processes"))
        if nodes > 1:
            yield self.problem("singleProcess", unsupported(f"on {nodes} nodes, only on 1"))
        if workers > 1 and self.device is DeviceType.cpu:
            reason = "on device cpu, which is one device for a process: nn.DataParallel does nothing there"
            yield self.problem("singleProcess", unsupported(reason))

    @property
    def environment(self) -> dict[str, str]:
        working_dir = {WORKING_DIR_ENV: self.working_dir} if self.working_dir else {}
        return {INSTRUMENT_ENV: self.instrument.value, **working_dir, **self.env}
