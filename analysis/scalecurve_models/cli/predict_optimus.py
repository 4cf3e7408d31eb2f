"""``scalecurve predict optimus``."""

from __future__ import annotations

import click

from scalecurve.cli import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, show
from scalecurve_models.cli.arguments import refusals, whole_numbers


@click.command("optimus")
@click.option("--theta", required=True, metavar="T,T", help="Coefficients of the speed: five (sync) or four (async).")
@click.option("--workers", required=True, metavar="N,N", help="Worker counts: 1,2,4,8.")
@click.option("--servers", default="1", show_default=True, metavar="N,N", help="Parameter servers: 2,4.")
@click.option("--batch", type=Real(min=1e-9), help="Global batch M; its terms are what sync wants beside the workers.")
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
        fail("--loss and --target-loss go together", EXIT_INPUT)
    with refusals():
        table = speed_table(
            _numbers(theta, "--theta"),
            whole_numbers(workers, "--workers"),
            whole_numbers(servers, "--servers"),
            batch,
            None if loss is None else _numbers(loss, "--loss"),
            target_loss,
        )
        show([table], output)


def _numbers(text: str, what: str) -> list[float]:
    import math

    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(math.isfinite(value) for value in values):
        fail(f"{what}: {text!r}: numbers with commas between them are wanted, as 1.02,2.78", EXIT_INPUT)
    return values
