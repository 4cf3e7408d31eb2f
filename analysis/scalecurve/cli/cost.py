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
    """Show time and cost of every point with intervals: of an epoch, of the training, to the target.

    Which worker count is cheapest and which fastest is said, and which no other beats in both.
    """
    from scalecurve.curves.cost import cost

    bundles = open_all(folders)
    show([cost(bundles, price.cost, price_notes=price.notes(bundles)).table()], output)
