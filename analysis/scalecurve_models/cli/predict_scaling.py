"""``scalecurve predict scaling BUNDLE``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import output_option, show
from scalecurve_models.cli.arguments import input_errors, integers


@click.command("scaling")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--workers", required=True, metavar="N,N", help="Worker counts to predict: 8,16,64.")
@output_option
def command(folder: Path, workers: str, output: str) -> None:
    """Predict throughput, run time and cost at any worker count from a measured bundle, by every model.

    Each model is listed with its errors at points excluded from its fit.
    """
    from scalecurve_models.comparison.tables import prediction_tables

    with input_errors():
        show(prediction_tables(open_all([folder])[0], integers(workers, "--workers")), output)
