"""``scalecurve fit BUNDLE...``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import bundles_argument, doubts, include_unproved_option, label_option, open_all
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, output_option, plot_option, save_plot, show
from scalecurve_models.cli.arguments import input_errors, integers


@click.command("fit")
@bundles_argument
@label_option
@click.option("--hold-out", metavar="N,N", help="Worker counts to exclude from every fit and predict from the others.")
@click.option("--hold-out-batch", metavar="N,N", help="The same for batches per worker.")
@click.option(
    "--loss",
    type=click.Choice(("validation", "training")),
    default="validation",
    show_default=True,
    help="Loss curves to fit: on held-out data, or as trained on.",
)
@click.option(
    "--all",
    "every_model",
    is_flag=True,
    help="Show every model's predictions, and beside training losses all other models.",
)
@include_unproved_option
@plot_option
@output_option
def command(
    folders: tuple[Path, ...],
    labels: tuple[str, ...],
    hold_out: str | None,
    hold_out_batch: str | None,
    loss: str,
    every_model: bool,
    include_unproved: bool,
    folder: Path | None,
    output: str,
) -> None:
    """Fit every model that the measured points support, and show predictions next to measurements.

    Each point is predicted by a fit that excludes it. JSON has every model and table; CSV has the first table.
    Of several bundles (devices, networks, years) each curve is fitted for itself; a table has the coefficient of every
    factor in which they differ. --plot draws the loss curve of each depth as predicted from the others. BUNDLE may also
    be a CSV file of points with the columns workers,throughput or workers,servers,steps_per_s[,batch] or step,loss or
    workers,bytes,time_us.
    """
    held_out, batches = integers(hold_out, "--hold-out"), integers(hold_out_batch, "--hold-out-batch")
    all_models = every_model or output in ("json", "csv")
    with input_errors():
        if tables := [folder for folder in folders if folder.suffix.lower() == ".csv"]:
            from scalecurve_models.fit.points_file import fit_file

            if len(folders) > 1:
                fail(f"{tables[0]}: a CSV file is fitted alone; scalecurve import makes a bundle of it", EXIT_INPUT)
            if batches or include_unproved or folder:
                only = "--hold-out-batch, --include-unproved and --plot"
                fail(f"{tables[0]}: {only} apply to bundles only", EXIT_INPUT)
            show(fit_file(tables[0], held_out), output)
            return
        from scalecurve_models.fit.fit_bundle import FitOptions, fit, fit_several

        bundles = open_all(folders, labels)
        how = FitOptions(hold_out_batches=batches, include_unproved=include_unproved, training=loss == "training")
        if len(bundles) == 1:
            report = fit(bundles[0], held_out, **how)
            shown, left_out = report.tables(every_model=all_models), report.learning.left_out
        else:
            several = fit_several(bundles, held_out, every_model=all_models, **how)
            shown, left_out = several.tables, several.left_out
        show(shown, output, warnings=doubts(bundles, include_unproved))
        if folder is None:
            return
        from scalecurve_models.report.learning_curves import draw_left_out

        if not left_out:
            fail(
                "--plot: expected losses of three depths or more, as of resnet20, resnet32, resnet44",
                EXIT_INPUT,
            )
        save_plot(folder, "left-out-depths", lambda: draw_left_out(left_out, loss == "training"), output)
