"""``scalecurve run FILE``."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.doctor import allotment_of
from scalecurve.cli.exit_codes import EXIT_INPUT, EXIT_INTERRUPTED
from scalecurve.cli.output import complain, fail, load_experiment, output_option, overlay_option, show
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from scalecurve_api.spec.experiment import ScalingExperiment
    from scalecurve_local import RunResult


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@overlay_option
@click.option("--bundle", type=click.Path(path_type=Path), help="Folder for the records.  [default: results/<name>]")
@click.option("--resume", is_flag=True, help="Resume an interrupted run in the same bundle.")
@click.option("--dry-run", is_flag=True, help="Show the plan and each worker's resources; start nothing.")
@click.option("--oversubscribe", is_flag=True, help="Run more workers than devices; such trials become Invalid.")
@click.option("--no-wait", is_flag=True, help="Fail at once if another run holds the devices.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Port for /metrics of local rank 0; further ranks count up. 0 lets the system choose.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
@output_option
def command(
    file: Path,
    overlays: tuple[Path, ...],
    bundle: Path | None,
    resume: bool,
    dry_run: bool,
    oversubscribe: bool,
    no_wait: bool,
    metrics_port: int | None,
    quiet: bool,
    output: str,
) -> None:
    """Run an experiment on this machine's GPUs or CPUs, one trial at a time, and print the scaling table.

    Ctrl-C stops the processes and keeps all records; --resume continues from there, even after a power failure.
    """
    experiment, source = load_experiment(file, overlays)
    if dry_run:
        _dry_run(experiment, oversubscribe, output)
        return
    folder = bundle or Path("results") / experiment.metadata.name
    result = run_experiment(
        experiment,
        source,
        folder,
        resume=resume,
        oversubscribe=oversubscribe,
        wait=not no_wait,
        metrics_port=metrics_port,
        quiet=quiet,
    )
    show_result(result, output)
    again = resume_hint(file, folder, overlays, oversubscribe=oversubscribe, metrics_port=metrics_port)
    if result.interrupted:
        fail(f"interrupted after {result.status.message}; resume with: {again}", EXIT_INTERRUPTED)
    if experiment.spec.suspend and not result.status.phase.final:
        complain(f"{file}: spec.suspend is true, so nothing was started; remove it and resume with: {again}")
    sys.exit(result.exit_code)


def resume_hint(
    file: Path,
    bundle: Path,
    overlays: Sequence[Path] = (),
    *,
    oversubscribe: bool = False,
    metrics_port: int | None = None,
) -> str:
    """The command that resumes the run, ready to paste in the same folder."""
    laid = [word for overlay in overlays for word in ("--overlay", str(overlay))]
    words = ["scalecurve", "run", str(file), *laid, "--bundle", str(bundle), "--resume"]
    words += ["--oversubscribe"] if oversubscribe else []
    words += ["--metrics-port", str(metrics_port)] if metrics_port is not None else []
    return shlex.join(words)


def run_experiment(
    experiment: ScalingExperiment,
    source: str,
    bundle: Path,
    *,
    resume: bool = False,
    oversubscribe: bool = False,
    wait: bool = True,
    metrics_port: int | None = None,
    quiet: bool = False,
    time_limit_s: float | None = None,
) -> RunResult:
    """Run with a live line and Ctrl-C handled; an engine's error ends the process with its exit code."""
    from scalecurve.render.progress import LiveLine
    from scalecurve_local import EngineError, StopRequest, run

    try:
        str(bundle.absolute()).encode()
    except UnicodeEncodeError:
        fail(f"{bundle}: folder name is not UTF-8, which records cannot hold; choose another", EXIT_INPUT)
    stop = StopRequest()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with LiveLine(quiet) as line, stop.within(time_limit_s):
            return run(
                experiment,
                source,
                bundle,
                resume=resume,
                oversubscribe=oversubscribe,
                wait=wait,
                metrics_port=metrics_port,
                report=line,
                stop=stop,
            )
    except EngineError as error:
        fail(str(error), error.exit_code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_result(result: RunResult, output: str) -> None:
    """The scaling table of what is recorded, every trial that did not succeed with its reason, and where all lies."""
    from scalecurve.bundle.open import open_bundle
    from scalecurve.curves.compute import scaling
    from scalecurve.curves.tables import excluded_table, scaling_table

    try:
        measured = scaling([open_bundle(result.bundle)])
    except BundleError as error:
        # Interrupted before anything was written.
        if not (result.interrupted or result.out_of_time):
            fail(str(error), EXIT_INPUT)
        return
    tables = [scaling_table(measured)]
    excluded = excluded_table(measured)
    if excluded.rows:
        tables.append(excluded)
    show(tables, output, {"bundle": str(result.bundle), "phase": result.status.phase.value})
    if output == "table":
        lines = ["", result.status.message, f"records: {result.bundle}"]
        lines += [f"logs:    {result.bundle}/trials/<trial>/logs"] if excluded.rows else []
        lines.append("report:  " + shlex.join(["scalecurve", "report", str(result.bundle)]))
        click.echo("\n".join(map(printable, lines)))


def _dry_run(experiment: ScalingExperiment, oversubscribe: bool, output: str) -> None:
    from scalecurve.planning import plan
    from scalecurve_local import EngineError

    planned = plan(experiment)
    try:
        allotment = allotment_of(experiment, oversubscribe)
    except EngineError as error:
        show(planned.tables(), output)
        fail(str(error), error.exit_code)
    show(planned.tables(), output, {"notes": list(allotment.notes)})
    if output == "table":
        click.echo("".join(f"note: {note}\n" for note in allotment.notes) + "dry run: nothing was started")
