"""The experiment for a training command as its user types it: ``torchrun --nproc-per-node 4 train.py --batch 32``.

Pure. A launcher's own words say how many ranks there are, which the experiment varies: they are dropped, and the engine
starts the ranks. What would change the training, and has no place in an experiment, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Any, NamedTuple

from scalecurve_api.programs.workload import Launcher
from scalecurve_api.spec.placeholders import BUILT_IN
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import did_you_mean, few
from scalecurve_api.validation.document import write_documents

PLACEHOLDERS = ("workers", "batchPerWorker", *(name for name in BUILT_IN if name not in ("workers", "batchPerWorker")))
BATCH_PLACEHOLDER = re.compile(r"\{(?:batchPerWorker|globalBatch)(?:/([1-9]\d*))?\}")
DEFAULT_BATCH = 32
TIMED_STEPS = 60
_WINDOWS = 3
_PLACEHOLDER = re.compile(r"(?<![${])\{([A-Za-z]\w*)\}(?!\})")
_RANKS = ("auto", "cpu", "gpu", "cuda", "{workers}", "{workersPerNode}")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_BATCH_OPTION = re.compile(
    r"-b|--(?:batch|batch[-_]size|bs|micro[-_]batch[-_]size|per[-_]device[-_]train[-_]batch[-_]size)"
)
OWN_OPTIONS = (
    "--workers",
    "--processes",
    "--modes",
    "--repetitions",
    "--steps",
    "--budget",
    "--yaml",
    "--dry-run",
    "--resume",
)
"""Options of ``scalecurve run`` that stand before the command; most scripts have a ``--batch`` of their own."""
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")
_MOST_NAME = 40


class CommandError(ValueError):
    """A command that no experiment can be made of; the message says what to write instead."""


@dataclass(frozen=True)
class ScriptCommand:
    """A command without its launcher."""

    words: tuple[str, ...]
    launcher: Launcher
    env: Mapping[str, str] = field(default_factory=dict)
    ranks: int | None = None
    """Ranks that the launcher was told to start, if it was a number."""
    dropped: tuple[str, ...] = ()
    """Words of the launcher that have no effect here."""
    single_process: bool = False
    """Whether one process drives all GPUs."""

    @property
    def script(self) -> str:
        """The script or module that python runs; the program, if it is not python."""
        rest = iter(self.words[1:]) if _PYTHON.fullmatch(_base(self.words[0])) else iter(())
        for word in rest:
            if word == "-m":
                return next(rest, self.words[0])
            if not word.startswith("-"):
                return word
        return self.words[0]

    @property
    def name(self) -> str:
        """A name for the experiment: that of the script."""
        name = _NOT_A_NAME.sub("-", _base(self.script).removesuffix(".py").lower()).strip("-")
        return name[:_MOST_NAME].strip("-") or "command"

    @property
    def doubtful_options(self) -> list[str]:
        """Options of ``scalecurve run`` that the script gets, and that may be its own, too."""
        return [word for word in self.words if word.partition("=")[0] in OWN_OPTIONS]

    @property
    def takes_batch(self) -> bool:
        """Whether a placeholder passes the batch to the script."""
        return any(BATCH_PLACEHOLDER.search(word) for word in self.words)

    @property
    def batches_per_step(self) -> int:
        """What the batch of a worker divides by, as ``{batchPerWorker/5}`` says."""
        return lcm(*(int(by) for word in self.words for by in BATCH_PLACEHOLDER.findall(word) if by))

    @property
    def batch_option(self) -> int | None:
        """The number after an option such as ``--batch-size``."""
        for word, following in zip(self.words, (*self.words[1:], ""), strict=True):
            option, _, value = word.partition("=")
            if _BATCH_OPTION.fullmatch(option) and (value or following).isdigit():
                return int(value or following)
        return None


def parse_command(words: Sequence[str]) -> ScriptCommand:
    """Take the variables, the launcher and its options off a command.

    Raises:
        CommandError: for an option of the launcher that the experiment cannot carry, and if no command is left.
    """
    rest, env = list(words), {}
    while rest and (assigned := _ASSIGNMENT.fullmatch(rest[0])):
        env[assigned[1]] = assigned[2]
        del rest[0]
    if not rest:
        raise CommandError("no command after --; expected one such as: torchrun --nproc-per-node {workers} train.py")
    _check_placeholders(rest)
    for begins, read in _LAUNCHERS:
        if _base(rest[0]) == begins[0] and tuple(rest[1 : len(begins)]) == begins[1:]:
            command = read(rest[len(begins) :])
            return ScriptCommand(
                command.words, command.launcher, {**env, **command.env}, command.ranks, command.dropped
            )
    if _PYTHON.fullmatch(_base(rest[0])) and rest[1:3] in (
        ["-m", "torch.distributed.run"],
        ["-m", "torch.distributed.launch"],
    ):
        command = _torchrun(rest[3:])
        return ScriptCommand(command.words, command.launcher, env, command.ranks, command.dropped)
    if _PYTHON.fullmatch(_base(rest[0])):
        _require_script(rest[1:], rest[0])
    return ScriptCommand(tuple(rest), Launcher.processes, env)


class Measured(NamedTuple):
    """How often a point is measured, and for how many steps after the warm-up."""

    repetitions: int
    steps: int = TIMED_STEPS


def shares_equally(batch: int, workers: Sequence[int], count: int, parts: int = 1) -> bool:
    """Whether ``count`` workers share the samples of strong scaling, those of the most workers, in as many parts."""
    return batch * max(workers) % (count * parts) == 0


def experiment_text(
    command: ScriptCommand, workers: Sequence[int], modes: Sequence[Mode], measured: Measured, batch: int | None
) -> str:
    """The YAML of the experiment: ``batch`` samples per worker, and for strong scaling those of the most workers."""
    sizes = {"perWorker": batch} if batch is not None and Mode.weak in modes else {}
    sizes |= {"global": batch * max(workers)} if batch is not None and Mode.strong in modes else {}
    workload: dict[str, Any] = {"program": "custom", "command": list(command.words), "launcher": command.launcher.value}
    if command.single_process:
        workload["singleProcess"] = True
    if command.env:
        workload["env"] = dict(command.env)
    scaling = {"modes": [mode.value for mode in modes], "workers": list(workers), **({"batch": sizes} if sizes else {})}
    measure = {
        "warmupSteps": 5,
        "windows": _WINDOWS,
        "stepsPerWindow": -(-measured.steps // _WINDOWS),
        "repetitions": measured.repetitions,
    }
    return write_documents(
        [
            {
                "apiVersion": "scalecurve.dev/v1alpha1",
                "kind": "ScalingExperiment",
                "metadata": {"name": command.name},
                "spec": {"scaling": scaling, "workload": workload, "measure": measure},
            }
        ]
    )


def _check_placeholders(words: Sequence[str]) -> None:
    for name in (name for word in words for name in _PLACEHOLDER.findall(word)):
        if name not in PLACEHOLDERS:
            near = did_you_mean(name, PLACEHOLDERS) or ("batchPerWorker" if "batch" in name.lower() else None)
            expected = f"did you mean {{{near}}}" if near else f"expected {few(f'{{{each}}}' for each in PLACEHOLDERS)}"
            raise CommandError(f"unknown placeholder {{{name}}}; {expected}")


def _require_script(words: Sequence[str], launcher: str) -> list[str]:
    """The words of a Python command, which need a script or a module."""
    if all(word.startswith("-") for word in words):
        raise CommandError(f"{launcher}: no script to start; expected one such as: {launcher} train.py")
    return list(words)


def _torchrun(words: Sequence[str]) -> ScriptCommand:
    options, rest = _split(
        words,
        flags=("standalone", "m", "module", "no-python", "run-path", "use-env"),
        values=(
            "nproc-per-node", "nnodes", "node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf",
            "max-restarts",
            "monitor-interval", "start-method", "role", "log-dir", "r", "redirects", "t", "tee", "local-ranks-filter",
            "master-addr", "master-port", "local-addr", "logs-specs",
        ),
        launcher="torchrun",
    )  # fmt: skip
    _one_node(options.get("nnodes", "1"), "--nnodes")
    if "no-python" in options:
        program = rest
    else:
        module = "m" in options or "module" in options
        program = ["python", *(["-m"] if module else []), *rest]
    return _make_command(program, Launcher.torchrun, options, "nproc-per-node")


def _accelerate(words: Sequence[str]) -> ScriptCommand:
    options, rest = _split(
        words,
        flags=("multi-gpu", "cpu", "m", "module"),
        values=(
            "num-processes",
            "num-machines",
            "mixed-precision",
            "main-process-port",
            "num-cpu-threads-per-process",
            "gpu-ids",
        ),
        launcher="accelerate launch",
    )
    _one_node(options.get("num-machines", "1"), "--num_machines")
    env = {"ACCELERATE_MIXED_PRECISION": options["mixed-precision"]} if "mixed-precision" in options else {}
    env |= {"ACCELERATE_USE_CPU": "true"} if "cpu" in options else {}
    module = ["-m"] if {"m", "module"} & options.keys() else []
    return _make_command(
        ["python", *module, *rest], Launcher.torchrun, options, "num-processes", env, ("mixed-precision", "cpu")
    )


def _deepspeed(words: Sequence[str]) -> ScriptCommand:
    options, rest = _split(
        words,
        flags=("module", "no-local-rank"),
        values=("num-gpus", "num-nodes", "master-port", "master-addr", "include", "exclude", "launcher"),
        launcher="deepspeed",
    )
    _one_node(options.get("num-nodes", "1"), "--num_nodes")
    module = ["-m"] if "module" in options else []
    return _make_command(["python", *module, *rest], Launcher.torchrun, options, "num-gpus")


def _mpirun(words: Sequence[str]) -> ScriptCommand:
    env: dict[str, str] = {}
    rest, ranks, dropped = list(words), None, list[str]()
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        taken = [rest.pop(0) for _ in range(min(_MPI_OPTIONS.get(name.lstrip("-"), -1), len(rest)))]
        if name.lstrip("-") not in _MPI_OPTIONS:
            raise CommandError(
                f"mpirun {name}: not supported here; remove it, or write an experiment with launcher: mpirun"
            )
        if name in ("-np", "-n", "-c", "--np"):
            ranks = int(taken[0]) if taken and taken[0].isdigit() else None
        elif name == "-x" and taken and (assigned := _ASSIGNMENT.fullmatch(taken[0])):
            env[assigned[1]] = assigned[2]
        else:
            dropped.append(" ".join([name, *taken]))
    if not rest:
        raise CommandError("mpirun: no program to start")
    return ScriptCommand(tuple(rest), Launcher.mpirun, env, ranks, tuple(dropped))


_MPI_OPTIONS = {
    "np": 1, "n": 1, "c": 1, "x": 1, "mca": 2, "bind-to": 1, "map-by": 1, "rank-by": 1, "allow-run-as-root": 0,
    "oversubscribe": 0, "tag-output": 0, "report-bindings": 0, "q": 0, "v": 0,
}  # fmt: skip
"""Options of mpirun -> words that follow each."""
_LAUNCHERS: tuple[tuple[tuple[str, ...], Callable[[Sequence[str]], ScriptCommand]], ...] = (
    (("torchrun",), _torchrun),
    (("accelerate", "launch"), _accelerate),
    (("deepspeed",), _deepspeed),
    (("mpirun",), _mpirun),
    (("mpiexec",), _mpirun),
)


def _split(
    words: Sequence[str], flags: Sequence[str], values: Sequence[str], launcher: str
) -> tuple[dict[str, str], list[str]]:
    """The launcher's options by name, and the words from the script on."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name in flags:
            options[name] = ""
        elif name not in values:
            near = next((known for known in (*values, *flags) if known.startswith(name) and len(name) > 1), None)
            near = near or did_you_mean(name, (*values, *flags))
            hint = f"did you mean --{near}" if near else "remove it, or write an experiment (docs/how-to)"
            hint = "an option of scalecurve run: put it before --" if f"--{name}" in OWN_OPTIONS else hint
            raise CommandError(f"{launcher} {word}: not supported here; {hint}")
        elif equals or rest:
            options[name] = value if equals else rest.pop(0)
        else:
            raise CommandError(f"{launcher} {word}: expected a value")
    return options, _require_script(rest, launcher)


def _make_command(
    program: Sequence[str],
    launcher: Launcher,
    options: Mapping[str, str],
    ranks: str,
    env: Mapping[str, str] | None = None,
    carried: Sequence[str] = (),
) -> ScriptCommand:
    number = options.get(ranks, "")
    if number and not number.isdigit() and number not in _RANKS:
        raise CommandError(f"--{ranks} {number}: expected {{workers}} or a whole number")
    return ScriptCommand(
        tuple(program),
        launcher,
        env or {},
        int(number) if number.isdigit() else None,
        tuple(_spell_dropped(options, (ranks, "standalone", "m", "module", "no-python", *carried))),
    )


def _spell_dropped(options: Mapping[str, str], carried: Sequence[str]) -> Iterator[str]:
    for name, value in options.items():
        if name not in carried:
            yield f"--{name} {value}".strip()


def _one_node(count: str, option: str) -> None:
    if count not in ("1", "1:1"):
        raise CommandError(f"{option} {count}: expected one node; several are an experiment on a cluster")


def _base(word: str) -> str:
    return word.rpartition("/")[2]
