"""``scalecurve recommend BUNDLE``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import Real, output_option, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import refusals, whole_numbers

if TYPE_CHECKING:
    from scalecurve.cli.price import Asked


@click.command("recommend")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--workers", metavar="N,N", help="Further counts, predicted by the models: 16,32,64.")
@click.option("--target", type=Real(min=0, max=1), help="Accuracy to reach.  [default: the experiment's]")
@click.option("--target-loss", type=Real(min=0), help="Loss to reach, in its place.")
@click.option("--deadline", type=Real(min=0), metavar="HOURS", help="Ask for the cheapest count within so many hours.")
@click.option("--budget", type=Real(min=0), help="Ask for the fastest count for so much money (or worker-hours).")
@click.option("--noise-scale", type=Real(min=0), help="Gradient noise scale in samples, for the measured one.")
@click.option("--hold-out", metavar="N,N", help="Measured counts that are treated as if they had not been run.")
@price_options
@output_option
def command(
    folder: Path,
    workers: str | None,
    target: float | None,
    target_loss: float | None,
    deadline: float | None,
    budget: float | None,
    noise_scale: float | None,
    hold_out: str | None,
    asked: Asked,
    output: str,
) -> None:
    """Say which worker count is the cheapest and which the fastest, also to a target, and how sure that is."""
    from scalecurve_models.recommend.recommend import recommend

    with refusals():
        (bundle,) = open_all([folder])
        found = recommend(
            bundle,
            workers=whole_numbers(workers, "--workers") if workers else [],
            price=asked.cost,
            target=target,
            target_loss=target_loss,
            deadline_s=None if deadline is None else deadline * 3600,
            budget=budget,
            noise_scale=noise_scale,
            hold_out=whole_numbers(hold_out, "--hold-out") if hold_out else [],
        )
    if output == "table":
        for answer in found.answers:
            click.echo(answer.sentence)
        click.echo()
    show(asked.noted(found.tables(), [bundle]), output)
