"""Published weak scaling of the same networks, to compare with a measured curve; none of it was measured here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from scalecurve.bundle.open import Bundle
from scalecurve.curves.stated import StatedCurve
from scalecurve.hardware.entries import Month
from scalecurve.hardware.names import folded
from scalecurve.render.table import Column, Table, columns_of
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.networks import NetworkError

Quantity = Literal["throughput", "speedup", "efficiency"]
SMALL_SIDE = 128  # images with a shorter side (CIFAR, digits) are not comparable with those of the published curves


class _Curve(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    network: str
    batch: int | None = Field(default=None, ge=1)
    quantity: Quantity
    points: dict[int, float] = Field(min_length=1)


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    published: Month | None = None
    hardware: str
    read_at: str
    curves: tuple[_Curve, ...]


@dataclass(frozen=True)
class PublishedCurve:
    """A published weak-scaling curve of one network.

    ``points`` are (accelerators, value as printed, efficiency); the efficiency is relative to the smallest count of the
    curve, ``over``, or to an unstated count (None) where an efficiency was printed.
    """

    source: str
    title: str
    network: str
    batch_per_worker: int | None
    hardware: str
    published: str | None
    read_at: str
    quantity: Quantity
    over: int | None
    points: tuple[tuple[int, float, float], ...]


@lru_cache(maxsize=1)
def published_curves() -> tuple[PublishedCurve, ...]:
    """Read every curve of ``data/published.yaml``."""
    text = (files("scalecurve_models.comparison") / "data" / "published.yaml").read_text(encoding="utf-8")
    sources = {key: _Source.model_validate(entry) for key, entry in yaml.safe_load(text).items()}
    return tuple(_curve(key, source, curve) for key, source in sources.items() for curve in source.curves)


def comparable_curves(bundle: Bundle) -> tuple[PublishedCurve, ...]:
    """Select the published curves of the networks that a bundle scaled weakly on GPUs with images of a similar size."""
    networks = {
        trial.spec.workload.model
        for trial in bundle.trials
        if trial.good and trial.record and trial.spec.point.mode is Mode.weak and _alike(trial.record)
    }
    return tuple(curve for curve in published_curves() if curve.network in networks)


def curves_named(name: str | None) -> tuple[PublishedCurve, ...]:
    """Find every curve whose network or publication has ``name`` in it. Raises NetworkError where none has."""
    curves = published_curves()
    found = tuple(c for c in curves if not name or folded(name) in folded(c.network) or folded(name) in folded(c.title))
    if not found:
        known = ", ".join(sorted({curve.network for curve in curves}))
        raise NetworkError(f"{name}: no published curve has it in its network or title; networks: {known}")
    return found


def stated_curves(curves: Sequence[StatedCurve]) -> tuple[PublishedCurve, ...]:
    """Convert the curves of a user's file to the form of published ones."""
    return tuple(
        PublishedCurve(
            source=curve.title,
            title=curve.title,
            network=curve.network,
            batch_per_worker=curve.batch_per_worker,
            hardware=curve.hardware,
            published=curve.published,
            read_at=curve.source,
            quantity=curve.quantity,
            over=None if curve.quantity == "efficiency" else curve.points[0][0],
            points=_relative(dict(curve.points), curve.quantity),
        )
        for curve in curves
    )


def published_table(curves: Sequence[PublishedCurve], title: str = "Published scaling of the same networks") -> Table:
    """Tabulate the published points, a row each, with their sources."""
    columns = (
        *columns_of("text", network="Network", title="Publication"),
        *columns_of("count", batch_per_worker="Batch/worker", workers="Accelerators"),
        Column("quantity", "Quantity"),
        Column("value", "Value", "number"),
        Column("efficiency", "Efficiency", "percent"),
        Column("over", "Relative to", "count"),
        Column("published", "Published"),
        Column("hardware", "Hardware", detail=True),
        Column("read_at", "Source", detail=True),
    )
    rows = tuple(
        (
            *(curve.network, curve.title, curve.batch_per_worker, workers, curve.quantity, value, efficiency),
            *(curve.over, curve.published, curve.hardware, curve.read_at),
        )
        for curve in curves
        for workers, value, efficiency in curve.points
    )
    sources = [". ".join(filter(None, (f"{c.title}: {c.hardware}".rstrip(": "), c.read_at))) + "." for c in curves]
    notes = (
        "Not measured here: published by others, with other hardware, software, batches, years, and no intervals.",
        "Efficiency is relative to the count stated; where an efficiency was published, as printed.",
        *dict.fromkeys(sources),
    )
    return Table("published", title, columns, rows, notes)


def _curve(key: str, source: _Source, curve: _Curve) -> PublishedCurve:
    return PublishedCurve(
        source=key,
        network=curve.network,
        batch_per_worker=curve.batch,
        quantity=curve.quantity,
        over=None if curve.quantity == "efficiency" else min(curve.points),
        points=_relative(curve.points, curve.quantity),
        **source.model_dump(exclude={"curves"}),
    )


def _relative(points: Mapping[int, float], quantity: Quantity) -> tuple[tuple[int, float, float], ...]:
    """(accelerators, value as printed, efficiency relative to the smallest count)."""
    least, first = min(points.items())
    as_printed = quantity == "efficiency"
    return tuple((n, x, x if as_printed else x / first * least / n) for n, x in sorted(points.items()))


def _alike(record: TrialRecord) -> bool:
    shape = record.trial.workload.data.shape or []
    return all(rank.device for rank in record.topology) and len(shape) > 2 and min(shape[-2:]) >= SMALL_SIDE
