"""``scalecurve recommend BUNDLE``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import Real, output_option, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import input_errors, integers

if TYPE_CHECKING:
    from scalecurve.cli.price import PriceOverride


@click.command("recommend")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--workers", metavar="N,N", help="Further worker counts, predicted by the models: 16,32,64.")
@click.option("--target", type=Real(min=0, max=1), help="Accuracy to reach.  [default: the experiment's]")
@click.option("--target-loss", type=Real(min=0), help="Loss to reach, instead of an accuracy.")
@click.option("--deadline", type=Real(min=0), metavar="HOURS", help="Also find the cheapest count within this time.")
@click.option("--budget", type=Real(min=0), help="Also find the fastest count within this cost (or worker-hours).")
@click.option("--noise-scale", type=Real(min=0), help="Gradient noise scale in samples.  [default: as measured]")
@click.option("--hold-out", metavar="N,N", help="Measured worker counts to treat as not measured.")
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
    price: PriceOverride,
    output: str,
) -> None:
    """Recommend the fastest and the cheapest worker count, also to a target, with the probability that each is."""
    from scalecurve_models.recommend.recommend import recommend

    with input_errors():
        (bundle,) = open_all([folder])
        recommendation = recommend(
            bundle,
            workers=integers(workers, "--workers"),
            price=price.cost,
            target=target,
            target_loss=target_loss,
            deadline_s=None if deadline is None else deadline * 3600,
            budget=budget,
            noise_scale=noise_scale,
            hold_out=integers(hold_out, "--hold-out"),
        )
    if output == "table":
        for optimum in recommendation.optima:
            click.echo(optimum.sentence)
        click.echo()
    show(price.annotated(recommendation.tables(), [bundle]), output)
