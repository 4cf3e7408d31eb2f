"""Complete trainings that others published, beside the time that a measured throughput gives for as many epochs."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from scalecurve.hardware.entries import Month
from scalecurve.render.table import Cell, Column, Table
from scalecurve_models.fitting.observations import ObservedSeries

IMAGENET_IMAGES, EPOCHS = 1_281_167, 90


class PublishedTraining(BaseModel):
    """A training to its end: minutes and top-1 accuracy as printed; ``efficiency`` is that of its scaling."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    authors: str
    published: Month
    network: str
    batch: int = Field(ge=1)
    hardware: str
    accelerators: int | None = Field(default=None, ge=1)
    framework: str
    minutes: float = Field(gt=0)
    top1: float = Field(gt=0, lt=1)
    efficiency: float | None = Field(default=None, gt=0, le=1)
    note: str = ""


@lru_cache(maxsize=1)
def read_published_trainings() -> tuple[PublishedTraining, ...]:
    """Every entry of ``data/trainings.yaml``, the slowest first."""
    text = (files("scalecurve_models.comparison") / "data" / "trainings.yaml").read_text(encoding="utf-8")
    entries = TypeAdapter(list[PublishedTraining]).validate_python(yaml.safe_load(text))
    return tuple(sorted(entries, key=lambda entry: -entry.minutes))


def trainings_table(networks: Iterable[str], measured: Sequence[tuple[str, ObservedSeries]] = ()) -> Table:
    """Trainings of these networks; and of each measured (label, curve) the time that 90 epochs of ImageNet would take.

    The latter follow from throughput alone: nothing says which accuracy such a training would reach.
    """
    known = {*networks}
    columns = (
        Column("authors", "Training"),
        Column("network", "Network"),
        Column("accelerators", "Accelerators", "count"),
        Column("hardware", "Hardware"),
        Column("batch", "Batch", "count"),
        Column("framework", "Library"),
        Column("minutes", "Time", "number", "min"),
        Column("top1", "Top-1 accuracy", "percent"),
        Column("efficiency", "Efficiency", "percent"),
        Column("published", "Published"),
        Column("note", "Note"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(each.authors, each.network, each.accelerators, each.hardware, each.batch, each.framework),
            *(each.minutes, each.top1, each.efficiency, each.published, each.note or None),
        )
        for each in read_published_trainings()
        if each.network in known
    ]
    if not rows:
        return Table("trainings", "Published trainings", columns, ())
    for label, series in measured:
        first = series.points[0]
        for point in series.points:
            minutes = EPOCHS * IMAGENET_IMAGES / point.throughput / 60
            share = point.throughput / first.throughput * first.workers / point.workers
            note = f"not trained: {EPOCHS} epochs at the measured throughput"
            here = (f"measured here: {label}", None, point.workers, None, round(point.batch), None)
            rows.append((*here, minutes, None, share, None, note))
    notes = (
        "Published by others, as a course's table of ImageNet at scale prints it; empty where it prints nothing. The "
        "time is that of the training, and depends on hardware, batch, epochs and stopping rule.",
    )
    return Table("trainings", "ImageNet at scale: published trainings", columns, tuple(rows), notes)
