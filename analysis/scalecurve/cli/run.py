"""``scalecurve run FILE``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from scalecurve.cli.exit_codes import EXIT_INPUT, EXIT_INTERRUPTED
from scalecurve.cli.output import (
    complain,
    fail,
    load_experiment,
    output_option,
    overlay_option,
    quiet_option,
)
from scalecurve.cli.run_jobs import RunOptions, run_experiment, run_jobs, show_plan, show_result, show_results
from scalecurve.cli.run_script import or_script
from scalecurve.cli.selection import RunExperiment, selector
from scalecurve.cli.usage import RunVerb

if TYPE_CHECKING:
    from scalecurve_local import RunRequest


@click.command("run", cls=RunVerb)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@overlay_option
@click.option(
    "--into",
    "--bundle",
    "bundle",
    type=click.Path(path_type=Path),
    help="Folder for the records.  [default: results/<name>]",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted run in the same bundle.")
@click.option(
    "--add-session",
    is_flag=True,
    help="Repeat all trials as a further session of a finished bundle, later or elsewhere.",
)
@click.option(
    "--add-points",
    is_flag=True,
    help="Run the worker counts that the experiment has and the bundle lacks; everything else must be the same.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Second experiment, to run in turns with the first in one session; `compare` then decides by pairs.",
)
@click.option(
    "--against-bundle", type=click.Path(path_type=Path), help="Folder for its records.  [default: results/<its name>]"
)
@click.option(
    "--search",
    is_flag=True,
    help="Look for the fastest points: short trials of all that can run, full trials of the best of each worker count.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and each worker's resources; start nothing.")
@click.option("--oversubscribe", is_flag=True, help="Run more workers than devices; such trials become Invalid.")
@click.option("--no-wait", is_flag=True, help="Fail at once if another run holds the devices.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Port for /metrics of local rank 0, at 127.0.0.1; further ranks count up. 0 lets the system choose.",
)
@quiet_option
@output_option
@or_script
def command(
    file: Path,
    overlays: tuple[Path, ...],
    bundle: Path | None,
    resume: bool,
    add_session: bool,
    add_points: bool,
    against: Path | None,
    against_bundle: Path | None,
    search: bool,
    dry_run: bool,
    oversubscribe: bool,
    no_wait: bool,
    metrics_port: int | None,
    quiet: bool,
    output: str,
) -> None:
    """Run an experiment on this machine's GPUs or CPUs, one trial at a time, and print the scaling table.

    Without a file: scalecurve run -- torchrun --nproc-per-node {workers} train.py --batch {batchPerWorker}

    Ctrl-C stops the processes and keeps all records; --resume continues from there, even after a power failure.
    """
    if resume and add_session:
        fail(
            "--resume and --add-session exclude each other: one finishes a session, the other begins a further one",
            EXIT_INPUT,
        )
    if add_points and (resume or add_session or against is not None):
        fail("--add-points excludes --resume, --add-session and --against", EXIT_INPUT)
    if against_bundle is not None and against is None:
        fail("--against-bundle requires --against", EXIT_INPUT)
    if search:
        if add_session or add_points or against is not None or dry_run:
            fail(
                "--search excludes --add-session, --add-points, --against and --dry-run; see plan --search", EXIT_INPUT
            )
        limits = RunOptions(oversubscribe=oversubscribe, wait=not no_wait, metrics_port=metrics_port)
        _search(file, overlays, bundle, resume, partial(run_experiment, quiet=quiet, **limits), output)
    jobs = [_job(file, overlays, bundle)] + ([_job(against, overlays, against_bundle)] if against else [])
    if dry_run:
        timing = "'scalecurve plan FILE' estimates it from --step-time or --from"
        show_plan(jobs, oversubscribe, output, timing, resume=resume, add_session=add_session, add_points=add_points)
        return
    how = RunOptions(
        resume=resume,
        add_session=add_session,
        add_points=add_points,
        oversubscribe=oversubscribe,
        wait=not no_wait,
        metrics_port=metrics_port,
    )
    results = run_jobs(jobs, quiet, None, **how)
    show_results(results, output)
    further = [
        *(["--against", str(against), "--against-bundle", str(jobs[1].bundle)] if against else []),
        *(["--oversubscribe"] if oversubscribe else []),
        *(["--metrics-port", str(metrics_port)] if metrics_port is not None else []),
    ]
    goes_on = "--resume" if results[0].begun else "--add-session"
    again = _command(file, overlays, jobs[0].bundle, goes_on, *further)
    done = "; ".join(dict.fromkeys(result.status.message for result in results))
    if any(result.interrupted for result in results):
        fail(f"interrupted after {done}; resume with: {again}", EXIT_INTERRUPTED)
    for job, result in zip(jobs, results, strict=True):
        asked = job.experiment.spec.measure.sessions.count
        if job.experiment.spec.suspend and not result.status.phase.final:
            complain(f"{file}: spec.suspend is true, so nothing was started; remove it and resume with: {again}")
        elif result.status.phase.final and result.sessions < asked:
            adding = _command(file, overlays, jobs[0].bundle, "--add-session", *further)
            complain(
                f"session {result.sessions} of {asked} complete; "
                f"run the next one later, or on another machine, with: {adding}"
            )
            break
    sys.exit(max(result.exit_code for result in results))


def _search(
    file: Path, overlays: Sequence[Path], bundle: Path | None, resume: bool, run: RunExperiment, output: str
) -> NoReturn:
    """Search, show what the finalists came to, and exit."""
    candidates = selector().candidates(file, overlays, None)
    folder = bundle or Path("results") / candidates.experiment.metadata.name
    result = selector().run(candidates, folder, resume, run)
    if result.bundle == folder.absolute() and result.status.phase.final:
        show_result(result, output)
    if result.interrupted:
        again = _command(file, overlays, folder, "--search", "--resume")
        fail(f"interrupted in {result.bundle}; resume with: {again}", EXIT_INTERRUPTED)
    sys.exit(result.exit_code)


def _job(file: Path, overlays: Sequence[Path], bundle: Path | None) -> RunRequest:
    from scalecurve_local import RunRequest

    experiment, source = load_experiment(file, overlays)
    return RunRequest(experiment, source, bundle or Path("results") / experiment.metadata.name)


def _command(file: Path, overlays: Sequence[Path], bundle: Path, *further: str) -> str:
    """A command that goes on with the run, ready to paste in the same folder."""
    laid = [word for overlay in overlays for word in ("--overlay", str(overlay))]
    return shlex.join(["scalecurve", "run", str(file), *laid, "--bundle", str(bundle), *further])
