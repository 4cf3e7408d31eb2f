"""``scalecurve cost BUNDLE...``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import bundles_argument, open_all
from scalecurve.cli.output import output_option, show
from scalecurve.cli.price import price_options

if TYPE_CHECKING:
    from pathlib import Path

    from scalecurve.cli.price import PriceOverride


@click.command("cost")
@bundles_argument
@price_options
@output_option
def command(folders: tuple[Path, ...], price: PriceOverride, output: str) -> None:
    """Show time and cost of every point with intervals: per epoch, for the full training, and to the target.

    Marks the cheapest, the fastest and the Pareto-optimal worker counts.
    """
    from scalecurve.curves.cost import cost

    bundles = open_all(folders)
    show([cost(bundles, price.cost, price_notes=price.notes(bundles)).table()], output)
