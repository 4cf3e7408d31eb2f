"""``scalebench plan FILE``."""

from __future__ import annotations

from pathlib import Path

import click

from scalebench.cli import EXIT_INPUT
from scalebench.cli.output import fail, load_experiment, output_option, show
from scalebench.planning import DEFAULT_STARTUP_SECONDS


@click.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--step-time", type=click.FloatRange(min=0, min_open=True), help="Seconds of one step, for the totals.")
@click.option(
    "--startup",
    type=click.FloatRange(min=0),
    default=DEFAULT_STARTUP_SECONDS,
    show_default=True,
    help="Seconds that each trial takes beside its steps.",
)
@click.option("--from", "earlier", type=click.Path(path_type=Path), help="An earlier bundle to take times from.")
@output_option
def command(file: Path, step_time: float | None, startup: float, earlier: Path | None, output: str) -> None:
    """Show the ordered trials, and the totals: trials, worker-hours, cost. Nothing is started."""
    from scalebench.bundle import open_bundle
    from scalebench.planning import plan
    from scalebench.problem import BundleError

    experiment, _ = load_experiment(file)
    try:
        bundle = open_bundle(earlier) if earlier else None
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    planned = plan(experiment, step_seconds=step_time, startup_seconds=startup, earlier=bundle)
    show(planned.tables(), output)
