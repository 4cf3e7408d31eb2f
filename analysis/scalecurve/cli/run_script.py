"""``scalecurve run -- COMMAND``: a training command as it is typed, without an experiment file."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED
from scalecurve.cli.output import complain, fail
from scalecurve.cli.run_jobs import RunOptions, run_jobs, show_plan, show_result, why_nothing_is_valid
from scalecurve.cli.usage import WORDS, Duration
from scalecurve.planning.starters import usable_cores, worker_counts
from scalecurve_api.problem import printable
from scalecurve_api.programs.workload import Launcher
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count as counted
from scalecurve_api.text import listed

if TYPE_CHECKING:
    from scalecurve.planning.script_command import ScriptCommand
    from scalecurve_local import RunRequest

_MOST_CORES = 4
_OPTIONS = ("workers", "processes", "modes", "repetitions", "steps", "batch", "budget", "yaml")
_OPTION_OF = {
    "spec.scaling.workers": "--workers",
    "spec.scaling.modes": "--modes",
    "spec.scaling.batch": "--batch",
    "spec.measure.repetitions": "--repetitions",
    "spec.workload.command": "the command",
    "spec.workload.env": "the command's variables",
    "spec.workload.launcher": "the command",
    "spec.workload.singleProcess": "--processes",
}
"""Fields of the experiment -> what the user typed that filled them."""
_FIELD_OF = {
    "workers": "spec.scaling.workers",
    "processes": "spec.workload.singleProcess",
    "modes": "spec.scaling.modes",
    "repetitions": "spec.measure.repetitions",
    "steps": "spec.measure.stepsPerWindow",
    "batch": "spec.scaling.batch",
}
"""Options of a command -> the field of a file that states the same."""
_SHELLS = ("bash", "sh")


class ScriptOptions(NamedTuple):
    """Options of a run without a file; None and empty where they are not set."""

    words: tuple[str, ...]
    workers: str | None
    processes: int | None
    modes: str | None
    repetitions: int | None
    steps: int | None
    batch: int | None
    budget: float | None
    yaml: Path | None

    @property
    def stated(self) -> list[str]:
        """The options that were set, as they are typed again."""
        values = {name: getattr(self, name) for name in _OPTIONS if name not in ("budget", "yaml")}
        return [word for name, value in values.items() if value is not None for word in (f"--{name}", str(value))]


def or_script(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a run without a file; such a run never reaches the verb's own function."""

    def run_either(*arguments: Any, **options: Any) -> None:
        words = click.get_current_context().meta.get(WORDS, ())
        script = ScriptOptions(words, *(options.pop(name) for name in _OPTIONS))
        file = options["file"]
        if not words and (wrong := [name for name in _OPTIONS if getattr(script, name) is not None]):
            field = _FIELD_OF.get(wrong[0])
            instead = f"; in an experiment file, set {field}" if field else ""
            fail(f"--{wrong[0]} applies to a command after -- only{instead}", EXIT_INPUT)
        if words and file is not None:
            fail(f"got the file {file} and a command after --; expected one of them", EXIT_INPUT)
        if not words and file is None:
            fail("expected an experiment file, or a command after --: scalecurve run -- torchrun train.py", EXIT_INPUT)
        if words:
            run_script(script, options)
        command(*arguments, **options)

    for option in _CLICK_OPTIONS:
        run_either = option(run_either)
    run_either.__doc__ = command.__doc__
    return run_either


_VALID = (TrialPhase.succeeded, TrialPhase.full)
_CLICK_OPTIONS = (
    click.option("--yaml", type=click.Path(path_type=Path), help="With a command: write its experiment to this file."),
    click.option("--budget", type=Duration(), help="With a command: time for all trials.  [default: 10m]"),
    click.option("--batch", type=click.IntRange(1), help="With a command: samples per worker and step."),
    click.option("--steps", type=click.IntRange(3), help="With a command: timed steps per trial.  [default: 60]"),
    click.option("--repetitions", type=click.IntRange(1, 100), help="With a command: trials per point.  [default: 3]"),
    click.option("--modes", metavar="MODE,MODE", help="With a command: strong, weak.  [default: both, with a batch]"),
    click.option("--processes", type=click.IntRange(1, 1), help="With a command: 1 for all GPUs, as nn.DataParallel."),
    click.option("--workers", metavar="N,N", help="With a command: worker counts.  [default: 1, 2, 4, …]"),
)
_OF_FILES = {
    "overlays": "overlay",
    "add_session": "add-session",
    "add_points": "add-points",
    "against": "against",
    "against_bundle": "against-bundle",
    "search": "search",
}
"""Parameters of the verb that only a file can have -> their options."""


def run_script(script: ScriptOptions, options: Mapping[str, Any]) -> NoReturn:
    """Run a command's experiment, show its table, write its report, and exit."""
    from scalecurve.bundle.open import open_bundle
    from scalecurve.cli.report import write_report

    if wrong := [option for name, option in _OF_FILES.items() if options[name]]:
        fail(f"--{wrong[0]} requires an experiment file; --yaml writes one", EXIT_INPUT)
    resume, output = options["resume"], options["output"]
    job = script_job(script, options["bundle"], resume)
    click.echo("\n".join(job.lines), err=output != "table")
    if options["dry_run"]:
        timing = f"--budget ends the run after {job.budget_s:g} s"
        show_plan([job.request], options["oversubscribe"], output, timing, resume=resume)
        sys.exit(0)
    how = RunOptions(
        resume=resume,
        oversubscribe=options["oversubscribe"],
        wait=not options["no_wait"],
        metrics_port=options["metrics_port"],
    )
    (result,) = run_jobs([job.request], options["quiet"], job.budget_s, _replace_field, True, **how)
    valid = any(record.phase in _VALID for record in result.records.values())
    if valid or output != "table":
        show_result(result, output)
    again = _resume(script, result.bundle)
    if result.interrupted:
        again = _resume(script, result.bundle, job.budget_s)
        fail(f"interrupted after {result.status.message}; resume with: {again}", EXIT_INTERRUPTED)
    if not valid:
        spec = job.request.experiment.spec
        fail(why_nothing_is_valid(result, spec.measure, job.budget_s, spec.scaling.workers), EXIT_FAILED)
    if result.records:
        pages = write_report([open_bundle(result.bundle)], result.bundle / "report")
        page = next((path for path in pages if path.suffix == ".html"), result.bundle / "report")
        click.echo(f"page:    {printable(str(page))}", err=output != "table")
    if result.out_of_time:
        complain(f"--budget ended the run after {result.status.message}; resume with: {again}")
    sys.exit(result.exit_code)


class ScriptJob(NamedTuple):
    """The experiment of a command, and what its user is told before it starts."""

    request: RunRequest
    lines: tuple[str, ...]
    budget_s: float


def script_job(script: ScriptOptions, bundle: Path | None, resume: bool) -> ScriptJob:
    """Make an experiment of a command; a command that none can be made of ends the verb with one line."""
    from scalecurve.planning.script_command import (
        TIMED_STEPS,
        CommandError,
        Measured,
        experiment_text,
        parse_command,
    )
    from scalecurve_api.validation.validate import validate_text
    from scalecurve_local import RunRequest

    try:
        command = parse_command(script.words)
    except CommandError as error:
        fail(str(error), EXIT_INPUT)
    if script.processes is not None:
        command = replace(command, launcher=Launcher.processes, single_process=True)
    _check_program(command)
    workers, modes = _workers(script, command), _modes(script, command)
    batch, about_batch = _batch(script, command)
    if batch is not None:
        _check_shares(batch, workers, modes, command.batches_per_step)
    measure = Measured(script.repetitions or 3, script.steps or TIMED_STEPS)
    text = experiment_text(command, workers, modes, measure, batch)
    validated = validate_text(text, "command")
    if validated.problems:
        fail(
            "; ".join(f"{_spell_option(problem.field)}: {problem.message}" for problem in validated.problems),
            EXIT_INPUT,
        )
    (experiment,) = validated.experiments
    if script.yaml is not None:
        _write(script.yaml, text)
    budget = script.budget or 600.0
    trials = len(workers) * len(modes) * experiment.spec.measure.repetitions
    lines = [
        f"{command.name}: {' and '.join(modes)} scaling on {listed(workers, 'worker')}, "
        f"{counted(trials, 'trial')}; "
        f"{about_batch}; ends after {budget:g} s at the latest (--budget)",
        *([f"dropped, since the ranks are started here: {', '.join(command.dropped)}"] if command.dropped else []),
        *_note_misplaced(command),
    ]
    folder = bundle or _folder(command.name, resume)
    return ScriptJob(RunRequest(experiment, text, folder), tuple(map(printable, lines)), budget)


def _check_shares(batch: int, workers: Sequence[int], modes: Sequence[Mode], parts: int) -> None:
    """The batch divides into what the command is handed of it, at every count."""
    from scalecurve.planning.script_command import shares_equally

    if batch % parts:
        fail(f"--batch {batch}: {{batchPerWorker/{parts}}} in the command needs a multiple of {parts}", EXIT_INPUT)
    if Mode.strong in modes and (
        odd := [count for count in workers if not shares_equally(batch, workers, count, parts)]
    ):
        fail(
            f"--batch {batch}: strong scaling keeps {batch * max(workers)} samples per step, which {odd[0]} workers "
            f"cannot share equally{f' in {parts} parts' if parts > 1 else ''}; use --batch {batch * odd[0]}, other "
            "--workers, or --modes weak",
            EXIT_INPUT,
        )


def _note_misplaced(command: ScriptCommand) -> Iterator[str]:
    """A note where the script gets an option of ours, which may be one of its own."""
    if command.doubtful_options:
        yield (
            f"note: {', '.join(command.doubtful_options)} went to {Path(command.script).name}, being after --; "
            "options of scalecurve stand before it"
        )


def _resume(script: ScriptOptions, bundle: Path, budget_s: float | None = None) -> str:
    """The command that resumes the run, with the same budget where one is stated."""
    budget = ["--budget", f"{budget_s:g}s"] if budget_s is not None and script.budget is not None else []
    return shlex.join(
        ["scalecurve", "run", "--into", str(bundle), "--resume", *script.stated, *budget, "--", *script.words]
    )


def _spell_option(field: str) -> str:
    """What the user typed that filled a field of the experiment; the field itself where nothing did."""
    option = next((option for start, option in _OPTION_OF.items() if field.startswith(start)), field)
    name = field.removeprefix("spec.workload.env.")
    return f"{option}, {name}" if name != field else option


def _replace_field(message: str) -> str:
    """An error of the engine, ``spec.scaling.workers: …``, with the option in place of the field."""
    field, colon, rest = message.partition(": ")
    return f"{_spell_option(field)}{colon}{rest}" if field in _OPTION_OF else message


def _check_program(command: ScriptCommand) -> None:
    first = command.words[0]
    if Path(first).suffix == ".py" and shutil.which(first) is None:
        fail(f"{first}: not an executable program; put python before it", EXIT_INPUT)
    if shutil.which(first) is None:
        hint = "remove the quotes around the command" if " " in first else "check the command after --"
        fail(f"{first}: no such program; {hint}", EXIT_INPUT)
    script = Path(command.words[1] if first in _SHELLS and len(command.words) > 1 else command.script)
    if script.suffix in (".py", ".sh") and not script.is_file():
        fail(f"{script}: no such file; the command is started in this folder, {Path.cwd()}", EXIT_INPUT)


def _workers(script: ScriptOptions, command: ScriptCommand) -> list[int]:
    if script.workers is not None:
        if not all(word.strip().isdigit() and int(word) for word in script.workers.split(",")):
            fail(f"--workers: got {script.workers!r}; expected counts such as 1,2,4", EXIT_INPUT)
        return [int(word) for word in script.workers.split(",")]
    from scalecurve_local import EngineError
    from scalecurve_local.execution.this_machine import survey

    try:
        machine = survey()
    except EngineError as error:
        fail(str(error), EXIT_ENVIRONMENT)
    if command.single_process and not machine.gpus:
        fail("--processes 1: no GPU here, and on CPUs nn.DataParallel does nothing", EXIT_INPUT)
    cores = min(usable_cores(len(machine.cores.siblings), machine.cores.budget), _MOST_CORES)
    devices = len(machine.gpus) or cores
    return worker_counts(min(devices, command.ranks or devices))


def _modes(script: ScriptOptions, command: ScriptCommand) -> list[Mode]:
    if command.single_process and not command.takes_batch and script.batch is None:
        fail(
            "--processes 1: one process reads the batch of all GPUs: write {globalBatch} in the command, or state a "
            "fixed one's part for each of the most workers with --batch and --modes strong",
            EXIT_INPUT,
        )
    if script.modes is None:
        return [Mode.strong, Mode.weak] if command.takes_batch else [Mode.weak]
    words = script.modes.split(",")
    if not words or not set(words) <= set(Mode):
        fail(f"--modes: got {script.modes!r}; expected strong, weak or both", EXIT_INPUT)
    if "strong" in words and not command.takes_batch and script.batch is None:
        fail(
            "--modes strong: the batch per worker must change: put {batchPerWorker} in the command, or, if the script "
            "divides a fixed total itself, pass --batch N (samples per worker at the largest count)",
            EXIT_INPUT,
        )
    return [Mode(word) for word in words]


def _batch(script: ScriptOptions, command: ScriptCommand) -> tuple[int | None, str]:
    """Samples per worker, and where the number is from; None where the script alone knows them."""
    from scalecurve.planning.script_command import DEFAULT_BATCH

    if script.batch is not None:
        return script.batch, f"batch {script.batch} per worker"
    if command.takes_batch:
        batch = DEFAULT_BATCH * command.batches_per_step
        return batch, f"batch {batch} per worker (--batch)"
    if (stated := command.batch_option) is not None:
        return (
            stated,
            f"batch {stated} per worker, as in the command ({{batchPerWorker}} in its place gives strong scaling)",
        )
    return None, "batch as the script has it ({batchPerWorker} in place of its number gives strong scaling)"


def _folder(name: str, resume: bool) -> Path:
    """The folder of the last run of this name, or a fresh one."""
    folders = (Path("results") / (f"{name}-{number}" if number > 1 else name) for number in count(1))
    last = None
    for folder in folders:
        if not folder.exists():
            return last if resume and last is not None else folder
        last = folder
    raise AssertionError("unreachable")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"--yaml {path}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
