"""``scalecurve recommend BUNDLE``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import doubts, include_unproved_option, open_all
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, say, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import input_errors, integers

if TYPE_CHECKING:
    from scalecurve.cli.price import PriceOverride
    from scalecurve_models.collectives.comparison import CollectiveComparison


@click.command("recommend")
@click.argument("folder", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--workers", metavar="N,N", help="Further worker counts, predicted or refused: 16,32,64.")
@click.option("--workers-per-node", type=click.IntRange(min=1), help="Of these.  [default: the most measured]")
@click.option("--target", type=Real(min=0, max=1), help="Accuracy to reach.  [default: the experiment's]")
@click.option("--target-loss", type=Real(min=0), help="Loss to reach, instead of an accuracy.")
@click.option("--deadline", type=Real(min=0), metavar="HOURS", help="Also find the cheapest count within this time.")
@click.option(
    "--budget",
    type=Real(min=0),
    help="Also find the fastest count within this cost (or worker-hours); with --deadline, the cheapest within both.",
)
@click.option("--noise-scale", type=Real(min=0), help="Gradient noise scale in samples.  [default: as measured]")
@click.option("--hold-out", metavar="N,N", help="Measured worker counts to treat as not measured.")
@price_options
@include_unproved_option
@output_option
def command(
    folder: Path,
    workers: str | None,
    workers_per_node: int | None,
    target: float | None,
    target_loss: float | None,
    deadline: float | None,
    budget: float | None,
    noise_scale: float | None,
    hold_out: str | None,
    price: PriceOverride,
    include_unproved: bool,
    output: str,
) -> None:
    """Recommend the fastest and the cheapest worker count, also to a target, with the probability that each is.

    Of timed all-reduces and other collectives alone, recommend the least message that fills the links, and the fastest
    series for each size.
    """
    from scalecurve.curves.compute import believable
    from scalecurve_models.collectives.comparison import compare_bundle
    from scalecurve_models.fitting.observations import observed_series
    from scalecurve_models.recommend.recommend import recommend

    with input_errors():
        (bundle,) = price.priced(open_all([folder]))
        counting = believable(bundle, include_unproved)
        collectives, too_few = ((), ()) if observed_series(counting) else compare_bundle(counting)
        if collectives:
            if any(each is not None for each in (target, target_loss, deadline, budget, noise_scale, hold_out)):
                fail(
                    f"{folder}: has timed collectives only; targets, limits and --hold-out apply to trainings",
                    EXIT_INPUT,
                )
            _recommend_sizes(
                collectives,
                integers(workers, "--workers"),
                workers_per_node,
                output,
                doubts([bundle], include_unproved),
            )
            return
        if too_few:
            fail(f"{folder}: has no measured points to recommend from; {'; '.join(too_few)}", EXIT_INPUT)
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
            include_unproved=include_unproved,
            workers_per_node=workers_per_node,
        )
    first_lines = doubts([bundle], include_unproved)
    if output == "table":
        _say_first(first_lines, [optimum.sentence for optimum in recommendation.optima])
        first_lines = []
    show(price.annotate(recommendation.tables(), [bundle]), output, warnings=first_lines)


def _recommend_sizes(
    collectives: Sequence[CollectiveComparison],
    workers: Sequence[int],
    workers_per_node: int | None,
    output: str,
    first_lines: Sequence[str],
) -> None:
    from scalecurve_models.collectives.message_sizes import fastest_table, least_size_table, least_sizes

    least, refused = least_sizes(collectives, workers, workers_per_node)
    if output == "table":
        _say_first(first_lines, [each.sentence for each in least])
        first_lines = []
    tables = [least_size_table(collectives, least, refused), fastest_table(collectives)]
    show([table for table in tables if table.rows], output, warnings=first_lines)


def _say_first(warnings: Sequence[str], sentences: Sequence[str]) -> None:
    for line in (*(f"warning: {warning}" for warning in warnings), *sentences):
        say(line)
    click.echo()
