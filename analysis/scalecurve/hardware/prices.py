"""Accelerator prices: data files with dates and sources, and where a price does not fit the runs."""

import datetime
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from scalecurve.bundle.open import Bundle
from scalecurve.hardware.devices import find_device
from scalecurve.hardware.entries import EntryError, SourcedEntry, find_entry, load_shipped_entries
from scalecurve.hardware.names import folded
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, table_of
from scalecurve_api.spec.experiment import Cost


def _as_date(value: Any) -> Any:
    """A day such as 2026-11-09: a date from YAML, text from JSON."""
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date | str):
        raise ValueError("expected a day such as 2026-11-09")
    try:
        return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)
    except ValueError as error:
        raise ValueError("expected a day such as 2026-11-09") from error


class Price(SourcedEntry):
    """What ``accelerators`` of one kind cost together for an hour, on ``date``, by ``source``."""

    accelerator: Annotated[str, Field(min_length=1)]
    per_hour: Annotated[float, Field(gt=0, le=1_000_000, strict=True)]
    accelerators: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 1
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    date: Annotated[datetime.date, BeforeValidator(_as_date)]

    @property
    def accelerator_hour_price(self) -> float:
        return self.per_hour / self.accelerators

    def cost(self, dataset_samples: int | None = None, epochs: int | None = None) -> Cost:
        """As an experiment states it; a worker drives one accelerator."""
        price = self.accelerator_hour_price
        return Cost(per_worker_hour=price, currency=self.currency, dataset_samples=dataset_samples, epochs=epochs)

    @property
    def sentence(self) -> str:
        total = f" ({formatting.number(self.per_hour)} for {self.accelerators})" if self.accelerators > 1 else ""
        hour = f"{formatting.number(self.accelerator_hour_price)} {self.currency} per accelerator-hour{total}"
        note = f" {self.note}" if self.note else ""
        return f"Price: {self.key}, {self.title}: {hour}, as of {self.date.isoformat()}; {self.source}.{note}"


@lru_cache(maxsize=1)
def prices() -> Mapping[str, Price]:
    """Every shipped price."""
    return load_shipped_entries("prices.yaml", Price)


def find_price(reference: str) -> Price:
    """A shipped price by its name, or one of a YAML or JSON file: its only one, or ``FILE:NAME``.

    Raises EntryError with the file, the entry and the field.
    """
    return find_entry(reference, "price", prices(), Price)


def price_notes(price: Price, bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """The price in a sentence, and where it does not fit the runs: another accelerator, a partly used instance."""
    notes = [price.sentence]
    records = [trial.record for bundle in bundles for trial in bundle.trials if trial.good and trial.record is not None]
    names = {place.device_name for record in records for place in record.topology}
    others = sorted(name for name in names if not _is_of(price, name))
    if others:
        notes.append(f"The runs used {', '.join(others)}; the price is for {price.accelerator}.")
    partly = sorted({len(r.topology) for r in records if len(r.topology) % price.accelerators})
    if partly:
        counts = ", ".join(map(str, partly))
        notes.append(
            f"Sold {price.accelerators} at a time: the idle rest at {counts} workers is billed but not counted here."
        )
    return tuple(notes)


def prices_for(bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """Names of the shipped prices of the accelerator that all valid runs used; none where they used several."""
    devices = {
        place.device_name
        for bundle in bundles
        for t in bundle.trials
        if t.good and t.record
        for place in t.record.topology
    }
    return tuple(name for name, price in prices().items() if len(devices) == 1 and _is_of(price, *devices))


def _is_of(price: Price, device: str) -> bool:
    """By the model's name: ``H200`` and ``NVIDIA H200``, ``K80_GPU`` and ``Tesla K80``."""
    try:
        title = find_device(price.accelerator).title
    except EntryError:
        title = price.accelerator
    model = price.accelerator.split("_")[0]
    return folded(model) in folded(device) or folded(device) in folded(title)


def price_table(prices: Mapping[str, Price]) -> Table:
    """One row per price."""
    return table_of(
        "prices",
        "Accelerator prices",
        prices.values(),
        (
            (Column("name", "Name"), lambda price: price.key),
            (Column("title", "What"), lambda price: price.title),
            (Column("accelerator", "Accelerator"), lambda price: price.accelerator),
            (Column("per_accelerator_hour", "Accelerator-hour", "number"), lambda price: price.accelerator_hour_price),
            (Column("currency", "Currency"), lambda price: price.currency),
            (Column("accelerators", "Sold in units of", "count"), lambda price: price.accelerators),
            (Column("date", "Date"), lambda price: price.date.isoformat()),
            (Column("source", "Source"), lambda price: price.source),
        ),
        ("Public list prices on that date, without taxes, storage, traffic and idle time.",),
    )
