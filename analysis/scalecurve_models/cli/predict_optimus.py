"""``scalecurve predict optimus``."""

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, show
from scalecurve_models.cli.arguments import input_errors, integers, numbers


@click.command("optimus")
@click.option("--theta", required=True, metavar="T,T", help="Speed coefficients: five (sync) or four (async).")
@click.option("--workers", required=True, metavar="N,N", help="Worker counts: 1,2,4,8.")
@click.option("--servers", default="1", show_default=True, metavar="N,N", help="Parameter servers: 2,4.")
@click.option("--batch", type=Real(min=1e-9), help="Global batch M; required for sync.")
@click.option("--loss", metavar="B,B,B", help="b0,b1,b2 of the loss curve: adds the time to --target-loss.")
@click.option("--target-loss", type=Real(min=1e-300), help="Loss to reach, with --loss.")
@output_option
def command(
    theta: str,
    workers: str,
    servers: str,
    batch: float | None,
    loss: str | None,
    target_loss: float | None,
    output: str,
) -> None:
    """Predict training speed over workers and parameter servers (Optimus, EuroSys 2018), and the time to a loss."""
    from scalecurve_models.optimus.table import speed_table

    if (loss is None) != (target_loss is None):
        fail("--loss and --target-loss must be given together", EXIT_INPUT)
    with input_errors():
        table = speed_table(
            numbers(theta, "--theta"),
            integers(workers, "--workers"),
            integers(servers, "--servers"),
            batch,
            None if loss is None else numbers(loss, "--loss"),
            target_loss,
        )
        show([table], output)
