"""``scalecurve fit BUNDLE``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import output_option, show
from scalecurve_models.cli.arguments import input_errors, integers


@click.command("fit")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--hold-out", metavar="N,N", help="Worker counts to exclude from every fit and predict from the others.")
@click.option("--hold-out-batch", metavar="N,N", help="The same for batches per worker.")
@click.option("--all", "every_model", is_flag=True, help="Show predictions of every model, not only each curve's best.")
@output_option
def command(folder: Path, hold_out: str | None, hold_out_batch: str | None, every_model: bool, output: str) -> None:
    """Fit every model that the measured points support, and show predictions next to measurements.

    Each point is predicted by a fit that excludes it. JSON has every model and table; CSV has the first table.
    BUNDLE may also be a CSV file of points with the columns workers,throughput or workers,servers,steps_per_s[,batch]
    or step,loss or workers,bytes,time_us.
    """
    with input_errors():
        if folder.suffix.lower() == ".csv":
            from scalecurve_models.fit.points_file import fit_file

            show(fit_file(folder), output)
            return
        from scalecurve_models.fit.fit_bundle import fit

        (bundle,) = open_all([folder])
        fits = fit(
            bundle,
            integers(hold_out, "--hold-out"),
            hold_out_batches=integers(hold_out_batch, "--hold-out-batch"),
        )
        show(fits.tables(every_model=every_model or output in ("json", "csv")), output)
