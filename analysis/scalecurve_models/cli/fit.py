"""``scalecurve fit BUNDLE``."""

from __future__ import annotations

from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import output_option, show
from scalecurve_models.cli.arguments import refusals, whole_numbers


@click.command("fit")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--hold-out", metavar="N,N", help="Worker counts that no fit may see; they are predicted from the others."
)
@click.option("--hold-out-batch", metavar="N,N", help="The same for batches of a worker.")
@click.option("--all", "every_model", is_flag=True, help="Predictions of every model, not of each curve's best alone.")
@output_option
def command(folder: Path, hold_out: str | None, hold_out_batch: str | None, every_model: bool, output: str) -> None:
    """Fit every model that the measured points can carry, and print predicted beside measured with its error.

    A point is predicted by a fit that left it out. JSON has every model and table; CSV is the first table.
    BUNDLE may also be a CSV file of points, by its columns: workers,throughput or workers,servers,steps_per_s[,batch]
    or step,loss or workers,bytes,time_us.
    """
    with refusals():
        if folder.suffix.lower() == ".csv":
            from scalecurve_models.fit.points_file import fit_file

            show(fit_file(folder), output)
            return
        from scalecurve_models.fit.fit_bundle import fit

        (bundle,) = open_all([folder])
        held = whole_numbers(hold_out, "--hold-out") if hold_out else []
        batches = whole_numbers(hold_out_batch, "--hold-out-batch") if hold_out_batch else []
        show(
            fit(bundle, held, hold_out_batches=batches).tables(every_model=every_model or output in ("json", "csv")),
            output,
        )
