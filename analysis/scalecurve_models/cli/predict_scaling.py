"""``scalecurve predict scaling BUNDLE``."""

from __future__ import annotations

from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import output_option, show
from scalecurve_models.cli.arguments import refusals, whole_numbers


@click.command("scaling")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--workers", required=True, metavar="N,N", help="Worker counts to predict: 8,16,64.")
@output_option
def command(folder: Path, workers: str, output: str) -> None:
    """Predict throughput, run time and cost at any worker count from what a bundle measured, by every model.

    How far each model can be believed stands beside it: its errors at points that it had to predict blindly.
    """
    from scalecurve_models.comparison.tables import extrapolated_tables

    with refusals():
        show(extrapolated_tables(open_all([folder])[0], whole_numbers(workers, "--workers")), output)
