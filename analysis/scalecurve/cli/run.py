"""``scalecurve run FILE``."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypedDict, Unpack

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.bundles import doubts
from scalecurve.cli.doctor import allotment_of
from scalecurve.cli.exit_codes import EXIT_INPUT, EXIT_INTERRUPTED
from scalecurve.cli.output import (
    complain,
    fail,
    load_experiment,
    output_option,
    overlay_option,
    quiet_option,
    show,
    warn,
)
from scalecurve.cli.search import RunExperiment, candidates_of, run_search
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from scalecurve_api.spec.experiment import ScalingExperiment
    from scalecurve_local import ForkServer, RunRequest, RunResult


class RunOptions(TypedDict, total=False):
    """What reaches ``scalecurve_local.run`` as it is."""

    resume: bool
    add_session: bool
    add_points: bool
    oversubscribe: bool
    wait: bool
    metrics_port: int | None
    fork_server: ForkServer


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
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
        _dry_run(jobs, oversubscribe, output, resume=resume, add_session=add_session, add_points=add_points)
        return
    how = RunOptions(
        resume=resume,
        add_session=add_session,
        add_points=add_points,
        oversubscribe=oversubscribe,
        wait=not no_wait,
        metrics_port=metrics_port,
    )
    results = _run(jobs, quiet, None, **how)
    _show_results(results, output)
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
                f"session {result.sessions} of {asked} is done; the next one, later or on another machine: {adding}"
            )
            break
    sys.exit(max(result.exit_code for result in results))


def _search(
    file: Path, overlays: Sequence[Path], bundle: Path | None, resume: bool, run: RunExperiment, output: str
) -> NoReturn:
    """Search, show what the finalists came to, and exit."""
    candidates = candidates_of(file, overlays, None)
    folder = bundle or Path("results") / candidates.experiment.metadata.name
    result = run_search(candidates, folder, resume, run)
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


def run_experiment(
    experiment: ScalingExperiment,
    source: str,
    bundle: Path,
    quiet: bool = False,
    time_limit_s: float | None = None,
    **how: Unpack[RunOptions],
) -> RunResult:
    """Run with a live line and Ctrl-C handled; an engine's error ends the process with its exit code."""
    from scalecurve_local import RunRequest

    return _run([RunRequest(experiment, source, bundle)], quiet, time_limit_s, **how)[0]


def _run(
    jobs: Sequence[RunRequest], quiet: bool, time_limit_s: float | None, **how: Unpack[RunOptions]
) -> Sequence[RunResult]:
    from scalecurve.render.progress import LiveLine
    from scalecurve_local import EngineError, StopRequest, run_in_turns

    for bundle in [job.bundle for job in jobs]:
        try:
            str(bundle.absolute()).encode()
        except UnicodeEncodeError:
            fail(f"{bundle}: folder name is not UTF-8, which records cannot hold; choose another", EXIT_INPUT)
    stop = StopRequest()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with LiveLine(quiet) as line, stop.within(time_limit_s):
            results = run_in_turns(jobs, report=line, stop=stop, **how)
        for damage in [damage for result in results for damage in result.damage]:
            complain(damage)
        return results
    except EngineError as error:
        fail(str(error), error.exit_code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_results(results: Sequence[RunResult], output: str) -> None:
    """The table of one experiment, or the comparison of two."""
    from scalecurve.bundle.open import open_bundles
    from scalecurve.checks.compare import compare

    if len(results) == 1:
        return show_result(results[0], output)
    try:
        before, after = open_bundles(result.bundle for result in results)
    except BundleError:
        return None  # interrupted before anything was written
    bundles = [str(result.bundle) for result in results]
    warn((before, after))
    first_lines = doubts((before, after), included=False)
    show([compare(before, after).table()], output, {"bundles": bundles}, first_lines)
    if output == "table":
        click.echo("\n".join(map(printable, ["", *(f"records: {bundle}" for bundle in bundles)])))
    return None


def show_result(result: RunResult, output: str) -> None:
    """The scaling table of what is recorded, every trial that did not succeed with its reason, and where all lies."""
    from scalecurve.bundle.measurement import measure
    from scalecurve.bundle.open import open_bundle
    from scalecurve.curves.best_layout import best_layouts, layout_table
    from scalecurve.curves.compute import scaling
    from scalecurve.curves.doubts import all_counted, first_lines
    from scalecurve.curves.tables import excluded_table, scaling_table
    from scalecurve.planning.search_words import search_in_words, search_table

    try:
        bundle = open_bundle(result.bundle)
    except BundleError as error:
        # Interrupted before anything was written.
        if not (result.interrupted or result.out_of_time):
            fail(str(error), EXIT_INPUT)
        return
    warn([bundle])
    measured = scaling([bundle])
    excluded = excluded_table(measured)
    competes = (lambda axis: True) if bundle.search else None
    layouts = layout_table(best_layouts(all_counted(measure(bundle), measured), compared=competes))
    more = [*([layouts] if layouts.rows else []), *([search_table(bundle.search)] if bundle.search else [])]
    show(
        [scaling_table(measured), *more, *([excluded] if excluded.rows else ())],
        output,
        {"bundle": str(result.bundle), "phase": result.status.phase.value},
        first_lines(measured.named_points()),
    )
    if output == "table":
        lines = ["", *(search_in_words(bundle.search) if bundle.search else ())]
        lines += [result.status.message, f"records: {result.bundle}"]
        lines += [f"logs:    {result.bundle}/trials/<trial>/logs"] if excluded.rows else []
        lines.append("report:  " + shlex.join(["scalecurve", "report", str(result.bundle)]))
        click.echo("\n".join(map(printable, lines)))


def _dry_run(jobs: Sequence[RunRequest], oversubscribe: bool, output: str, **how: bool) -> None:
    from scalecurve.planning.plan import plan
    from scalecurve_local import EngineError, prepare

    try:
        sessions = [prepare(job, **how).session if any(how.values()) else 0 for job in jobs]
    except EngineError as error:
        fail(str(error), error.exit_code)
    planned = [plan(job.experiment, session=session) for job, session in zip(jobs, sessions, strict=True)]
    tables = [table for each in planned for table in each.tables()]
    try:
        notes = [note for job in jobs for note in allotment_of(job.experiment, oversubscribe).notes]
    except EngineError as error:
        show(tables, output)
        fail(str(error), error.exit_code)
    show(tables, output, {"notes": notes})
    if output == "table":
        click.echo("".join(f"note: {note}\n" for note in dict.fromkeys(notes)) + "dry run: nothing was started")
