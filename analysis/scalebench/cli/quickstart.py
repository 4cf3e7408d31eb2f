"""``scalebench quickstart``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from scalebench.cli import EXIT_ENVIRONMENT, EXIT_INTERRUPTED
from scalebench.cli.output import fail


@click.command("quickstart")
@click.option(
    "--into", type=click.Path(path_type=Path), default="results", show_default=True, help="Folder for it all."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(into: Path, quiet: bool) -> None:
    """Run a first experiment that fits this machine with real training processes, and write its report."""
    from scalebench.bundle import open_bundles
    from scalebench.cli.doctor import survey
    from scalebench.cli.run import resume_hint, run_experiment, show_result
    from scalebench.quickstart import starters, usable_cores
    from scalebench.report import report
    from scalebench_api.validate import validate_text
    from scalebench_local import EngineError

    try:
        machine = survey()
        cores = usable_cores(len(machine.cores.siblings), machine.cores.budget)
        chosen, said = starters(len(machine.gpus), cores)
    except (EngineError, ValueError) as error:
        fail(str(error), EXIT_ENVIRONMENT)
    click.echo(said)
    folder = _fresh(into)
    began, codes, bundles = time.monotonic(), [], []
    for starter in chosen:
        experiment = validate_text(starter.text, starter.name).experiments[0]
        bundle = folder / starter.name
        result = run_experiment(experiment, starter.text, bundle, quiet=quiet)
        show_result(result, "table")
        click.echo("")
        if result.interrupted:
            fail(f"interrupted; go on with: {resume_hint(bundle / 'experiment.yaml', bundle)}", EXIT_INTERRUPTED)
        codes.append(result.exit_code)
        bundles.append(bundle)
    written = report(open_bundles(bundles), folder / "report")
    click.echo(f"the whole of it took {time.monotonic() - began:.0f} s")
    page = next((path for path in written if path.suffix == ".html"), folder / "report")
    click.echo(f"report: {page}")
    sys.exit(max(codes))


def _fresh(into: Path) -> Path:
    """A folder that no earlier quickstart has used."""
    number = 1
    while (folder := into / (f"quickstart-{number}" if number > 1 else "quickstart")).exists():
        number += 1
    return folder
