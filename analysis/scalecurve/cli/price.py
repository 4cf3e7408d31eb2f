"""Price options: ``--prices NAME|FILE`` with date and source, or ``--per-worker-hour``, of all bundles or of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, as_text, fail, options_as
from scalecurve_api.text import few, plain

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.hardware.prices import Price
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import Cost

MOST_PER_HOUR = 1e6


class PricePerBundle(click.ParamType[float | Mapping[str, float]]):
    """A price, or one for each bundle or device: ``2.48`` or ``t4=0.35,v100=2.48``."""

    name = "price"
    several = "a price for each bundle or device is --per-worker-hour t4=0.35,v100=2.48"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = Real(min=0, max=MOST_PER_HOUR)
        if not isinstance(value, str) or "=" not in value:
            return number.convert(value, param, ctx)
        rates: dict[str, float] = {}
        for part in value.split(","):
            name, _, price = (word.strip() for word in part.partition("="))
            if not name or not price or name in rates:
                self.fail(f"got {part!r}; expected a bundle's label or device, once: t4=0.35,v100=2.48", param, ctx)
            rates[name] = number.convert(price, param, ctx)
        return rates


@dataclass(frozen=True)
class PriceOverride:
    """What takes the place of the experiments' own price; nothing where no option says anything.

    ``price`` is an entry of a price file, whose date and source are told. ``of`` has a price for each bundle's label or
    device; ``cost`` is then None.
    """

    cost: Cost | None = None
    price: Price | None = None
    of: Mapping[str, Cost] = field(default_factory=dict)

    def priced(self, bundles: Sequence[Bundle]) -> tuple[Bundle, ...]:
        """The bundles, each with the price of its own; a name that is nobody's ends the verb."""
        if not self.of:
            return tuple(bundles)
        named = {bundle.label: _names_of(bundle, self.of) for bundle in bundles}
        for name in self.of:
            if not any(name in names for names in named.values()):
                known = dict.fromkeys(known for bundle in bundles for known in (bundle.label, *_devices(bundle)))
                fail(f"--per-worker-hour: {name!r} is no bundle and no device; expected {few(list(known))}", EXIT_INPUT)
        for label, names in named.items():
            if len(names) > 1:
                fail(f"--per-worker-hour: {' and '.join(names)} are both of {label}; name the bundle", EXIT_INPUT)
        return tuple(
            replace(bundle, price=self.of[names[0]]) if (names := named[bundle.label]) else bundle for bundle in bundles
        )

    def source_price(self, source: str) -> Cost | None:
        """The price of what is no bundle."""
        if self.of:
            fail(f"{source}: --per-worker-hour NAME=PRICE is of bundles; expected one price", EXIT_INPUT)
        return self.cost

    def notes(self, bundles: Sequence[Bundle] = ()) -> tuple[str, ...]:
        from scalecurve.curves.cost import stated_price
        from scalecurve.hardware.prices import price_notes, prices_for

        if self.of:
            spelled = ", ".join(f"{name} {cost.per_worker_hour:g} {cost.currency}" for name, cost in self.of.items())
            return (f"Prices of a worker-hour by --per-worker-hour: {spelled}.",)
        if self.price is not None:
            return price_notes(self.price, bundles)
        known = self.cost is not None or any(stated_price(bundle) for bundle in bundles)
        fitting = () if known else prices_for(bundles)
        return (f"Dated prices of this accelerator: --prices {' or '.join(fitting)}.",) if fitting else ()

    def annotate(self, tables: Sequence[Table], bundles: Sequence[Bundle] = ()) -> list[Table]:
        first, *rest = tables
        return [replace(first, notes=(*first.notes, *self.notes(bundles))), *rest]


def _names_of(bundle: Bundle, of: Mapping[str, Cost]) -> list[str]:
    """The names among these that are the bundle's: its label, else its device."""
    if bundle.label in of:
        return [bundle.label]
    from scalecurve.hardware.names import folded

    devices = [folded(device) for device in _devices(bundle)]
    return [name for name in of if any(folded(name) in device for device in devices)]


def _devices(bundle: Bundle) -> list[str]:
    ranks = [rank for trial in bundle.trials if trial.good and trial.record for rank in trial.record.topology]
    return sorted({rank.device_name for rank in ranks})


def _override(
    prices: str | None,
    per_worker_hour: float | Mapping[str, float] | None,
    currency: str | None,
    dataset_samples: int | None,
    epochs: int | None,
) -> PriceOverride:
    from pydantic import ValidationError

    from scalecurve_api.spec.experiment import Cost

    if prices is not None:
        if per_worker_hour is not None or currency is not None:
            fail("--prices already sets price and currency; drop --per-worker-hour and --currency", EXIT_INPUT)
        return _find_override(prices, dataset_samples, epochs)
    if per_worker_hour is None:
        if {dataset_samples, epochs, currency} != {None}:
            needs = "--dataset-samples, --epochs and --currency require a price: --prices or --per-worker-hour"
            fail(needs, EXIT_INPUT)
        return PriceOverride()

    def cost(rate: float) -> Cost:
        money = "USD" if currency is None else currency
        return Cost(per_worker_hour=rate, currency=money, dataset_samples=dataset_samples, epochs=epochs)

    try:
        if isinstance(per_worker_hour, Mapping):
            return PriceOverride(of={name: cost(rate) for name, rate in per_worker_hour.items()})
        return PriceOverride(cost(per_worker_hour))
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        fail(f"--{option}: got {first['input']!r}; expected {plain(first['msg'])}", EXIT_INPUT)


def _find_override(reference: str, dataset_samples: int | None, epochs: int | None) -> PriceOverride:
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
        "--per-worker-hour",
        type=PricePerBundle(),
        metavar="PRICE|NAME=PRICE,...",
        help="Price of a worker-hour, instead of the experiment's; of each bundle or device: t4=0.35,v100=2.48.",
    ),
    click.option("--currency", help="Currency of --per-worker-hour, three letters.  [default: USD]"),
    click.option("--dataset-samples", type=click.IntRange(min=1), help="With a price: samples per epoch."),
    click.option("--epochs", type=click.IntRange(min=1), help="With a price: epochs of the full training."),
)
