"""``scalecurve quickstart``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT, EXIT_INTERRUPTED
from scalecurve.cli.output import fail, quiet_option
from scalecurve.cli.report import write_report
from scalecurve.cli.run_jobs import run_experiment, show_result
from scalecurve.planning import quickstart_noise as noise
from scalecurve.planning.starters import starters, usable_cores

if TYPE_CHECKING:
    from scalecurve.planning.starters import Starter
    from scalecurve_local import ForkServer, RunResult

_REPORT_SHARE = 0.15  # of the time limit, kept for the report
_FIRST_SHARE = 0.6  # of the time for runs: the first experiment may take so much, the second what is left


@click.command("quickstart")
@click.option("--into", type=click.Path(path_type=Path), default="results", show_default=True, help="Output folder.")
@click.option("--resume", is_flag=True, help="Resume the last quickstart in that folder.")
@click.option(
    "--time-limit",
    type=click.FloatRange(10, 86400),
    default=240,
    show_default=True,
    help="Seconds for everything; trials that do not fit are skipped.",
)
@quiet_option
def command(into: Path, resume: bool, time_limit: float, quiet: bool) -> None:
    """Run a first experiment sized for this machine, with real training processes, and write its report.

    Exits 0 once the report is written; its first lines say what was too noisy and what did not fit the time limit.
    """
    began = time.monotonic()
    from scalecurve_local import EngineError, ForkServer
    from scalecurve_local.devices.cores import measure_load
    from scalecurve_local.execution.this_machine import survey

    try:
        machine = survey()
        cores = usable_cores(len(machine.cores.siblings), machine.cores.budget)
        chosen, choice = starters(len(machine.gpus), cores)
    except (EngineError, ValueError) as error:
        fail(str(error), EXIT_ENVIRONMENT)
    folder = last(into) if resume else fresh(into)
    if folder is None:
        fail(f"{into}: no quickstart to resume; drop --resume", EXIT_INPUT)
    load = measure_load([thread for core in machine.cores.siblings for thread in core])
    for line in noise.before(load.busy, load.stolen) if load else ():
        click.echo(line)
    click.echo(choice)
    again = shlex.join(["scalecurve", "quickstart", "--into", str(into), "--resume"])
    ending = began + time_limit * (1 - _REPORT_SHARE)
    shares = [_FIRST_SHARE] * (len(chosen) - 1) + [1.0]
    results = []
    # Loading torch would take half of the time.
    with ForkServer() as server:
        for starter, share in zip(chosen, shares, strict=True):
            limit = max(0.0, ending - time.monotonic()) * share
            results.append(_run(starter, folder / starter.name, again, limit, resume, quiet, server))
    lines = [
        line
        for name, result in results
        for line in noise.after(name, list(result.records.values()), len(result.status.phases), again)
    ]
    _report(results, folder, lines, began)


def _run(
    starter: Starter,
    bundle: Path,
    again: str,
    time_limit_s: float,
    resume: bool,
    quiet: bool,
    fork_server: ForkServer,
) -> tuple[str, RunResult]:
    from scalecurve_api.validation.validate import validate_text

    experiment = validate_text(starter.text, starter.name).experiments[0]
    resume = resume and bundle.exists()
    result = run_experiment(
        experiment, starter.text, bundle, quiet, time_limit_s, resume=resume, fork_server=fork_server
    )
    if result.interrupted:
        fail(f"interrupted after {result.status.message}; resume with: {again}", EXIT_INTERRUPTED)
    return starter.name, result


def _report(results: Sequence[tuple[str, RunResult]], folder: Path, lines: Sequence[str], began: float) -> None:
    from scalecurve.bundle.open import open_bundles

    click.echo("".join(f"{line}\n" for line in lines), nl=False)
    for _, result in results:
        show_result(result, "table")
        click.echo("")
    bundles = [result.bundle for _, result in results if result.records]
    if not bundles:
        fail("no trial ended within the time limit, so there is no report", EXIT_ENVIRONMENT)
    written = write_report(open_bundles(bundles), folder / "report")
    click.echo(f"total time: {time.monotonic() - began:.0f} s")
    page = next((path for path in written if path.suffix == ".html"), folder / "report")
    click.echo(f"report: {page}")


def fresh(into: Path) -> Path:
    """A folder that no earlier quickstart has used."""
    return next(folder for folder in _folders(into) if not folder.exists())


def last(into: Path) -> Path | None:
    """The folder of the newest quickstart, None without any."""
    made = list(takewhile(Path.exists, _folders(into)))
    return made[-1] if made else None


def _folders(into: Path) -> Iterator[Path]:
    return (into / (f"quickstart-{number}" if number > 1 else "quickstart") for number in count(1))
