"""Price options: ``--prices NAME|FILE`` with date and source, or ``--per-worker-hour``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, as_text, fail, options_as
from scalecurve_api.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalecurve.bundle.open import Bundle
    from scalecurve.hardware.prices import Price
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import Cost


@dataclass(frozen=True)
class PriceOverride:
    """What takes the place of the experiments' own price; both None where no option says anything.

    ``price`` is an entry of a price file, whose date and source are told.
    """

    cost: Cost | None = None
    price: Price | None = None

    def notes(self, bundles: Sequence[Bundle] = ()) -> tuple[str, ...]:
        from scalecurve.hardware.prices import price_notes

        return price_notes(self.price, bundles) if self.price is not None else ()

    def annotated(self, tables: Sequence[Table], bundles: Sequence[Bundle] = ()) -> list[Table]:
        first, *rest = tables
        return [replace(first, notes=(*first.notes, *self.notes(bundles))), *rest]


def _override(
    prices: str | None,
    per_worker_hour: float | None,
    currency: str | None,
    dataset_samples: int | None,
    epochs: int | None,
) -> PriceOverride:
    from pydantic import ValidationError

    from scalecurve_api.spec.experiment import Cost

    if prices is not None:
        if per_worker_hour is not None or currency is not None:
            fail("--prices already sets price and currency; drop --per-worker-hour and --currency", EXIT_INPUT)
        return _of_file(prices, dataset_samples, epochs)
    if per_worker_hour is None:
        if {dataset_samples, epochs, currency} != {None}:
            needs = "--dataset-samples, --epochs and --currency require a price: --prices or --per-worker-hour"
            fail(needs, EXIT_INPUT)
        return PriceOverride()
    try:
        currency = "USD" if currency is None else currency
        cost = Cost(per_worker_hour=per_worker_hour, currency=currency, dataset_samples=dataset_samples, epochs=epochs)
        return PriceOverride(cost)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        fail(f"--{option}: got {first['input']!r}; expected {plain(first['msg'])}", EXIT_INPUT)


def _of_file(reference: str, dataset_samples: int | None, epochs: int | None) -> PriceOverride:
    from scalecurve.hardware.entries import EntryError
    from scalecurve.hardware.prices import find_price, price_table, prices

    if reference == "list":
        click.echo(as_text(price_table(prices())), nl=False)
        raise SystemExit(0)
    try:
        price = find_price(reference)
    except EntryError as error:
        fail(str(error), EXIT_INPUT)
    return PriceOverride(price.cost(dataset_samples, epochs), price)


price_options = options_as(
    "price",
    _override,
    click.option(
        "--prices",
        metavar="NAME|FILE[:NAME]",
        help="Dated price with its source, built-in or from a YAML file; 'list' shows the built-in ones.",
    ),
    click.option(
        "--per-worker-hour", type=Real(min=0, max=1e6), help="Price of a worker-hour, instead of the experiment's."
    ),
    click.option("--currency", help="Currency of --per-worker-hour, three letters.  [default: USD]"),
    click.option("--dataset-samples", type=click.IntRange(min=1), help="With a price: samples per epoch."),
    click.option("--epochs", type=click.IntRange(min=1), help="With a price: epochs of the full training."),
)
