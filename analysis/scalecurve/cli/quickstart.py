"""``scalecurve quickstart``."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT, EXIT_INTERRUPTED
from scalecurve.cli.output import fail


@click.command("quickstart")
@click.option("--into", type=click.Path(path_type=Path), default="results", show_default=True, help="Output folder.")
@click.option("--resume", is_flag=True, help="Resume the last, interrupted quickstart in that folder.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
def command(into: Path, resume: bool, quiet: bool) -> None:
    """Run a first experiment that fits this machine with real training processes, and write its report."""
    from scalecurve.bundle.open import open_bundles
    from scalecurve.cli.doctor import survey
    from scalecurve.cli.report import write_report
    from scalecurve.cli.run import run_experiment, show_result
    from scalecurve.quickstart import starters, usable_cores
    from scalecurve_api.validation.validate import validate_text
    from scalecurve_local import EngineError

    try:
        machine = survey()
        cores = usable_cores(len(machine.cores.siblings), machine.cores.budget)
        chosen, said = starters(len(machine.gpus), cores)
    except (EngineError, ValueError) as error:
        fail(str(error), EXIT_ENVIRONMENT)
    folder = last(into) if resume else fresh(into)
    if folder is None:
        fail(f"{into}: no quickstart to resume; drop --resume", EXIT_INPUT)
    click.echo(said)
    began, codes, bundles = time.monotonic(), [], []
    for starter in chosen:
        experiment = validate_text(starter.text, starter.name).experiments[0]
        bundle = folder / starter.name
        result = run_experiment(experiment, starter.text, bundle, resume=resume, quiet=quiet)
        show_result(result, "table")
        click.echo("")
        if result.interrupted:
            again = shlex.join(["scalecurve", "quickstart", "--into", str(into), "--resume"])
            fail(f"interrupted after {result.status.message}; resume with: {again}", EXIT_INTERRUPTED)
        codes.append(result.exit_code)
        bundles.append(bundle)
    written = write_report(open_bundles(bundles), folder / "report")
    click.echo(f"took {time.monotonic() - began:.0f} s in total")
    page = next((path for path in written if path.suffix == ".html"), folder / "report")
    click.echo(f"report: {page}")
    sys.exit(max(codes))


def fresh(into: Path) -> Path:
    """A folder that no earlier quickstart has used."""
    return next(folder for folder in _folders(into) if not folder.exists())


def last(into: Path) -> Path | None:
    """The folder of the newest quickstart, None without any."""
    made = list(takewhile(Path.exists, _folders(into)))
    return made[-1] if made else None


def _folders(into: Path) -> Iterator[Path]:
    return (into / (f"quickstart-{number}" if number > 1 else "quickstart") for number in count(1))
