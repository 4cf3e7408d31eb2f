"""Match strong and weak series: they share a color and stand side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.curves.results import SeriesResult
from scalecurve.render.labels import shortened

S = TypeVar("S", MeasuredSeries, SeriesResult)


@dataclass(frozen=True)
class Identity:
    """What a strong and a weak series share: the label without the mode, and its place among all labels."""

    label: str
    index: int


def identities(series: Sequence[MeasuredSeries] | Sequence[SeriesResult]) -> dict[tuple[str, str], Identity]:
    """(bundle, series) -> identity; the label has only what distinguishes the curves."""
    several = len({curve.bundle for curve in series}) > 1
    axes = {(curve.bundle, curve.name): curve.name.removeprefix(curve.mode.value).strip() for curve in series}
    short, _ = shortened(axes.values())
    labels = {}
    for curve in series:
        rest = short[axes[curve.bundle, curve.name]]
        labels[curve.bundle, curve.name] = " ".join(part for part in (curve.bundle if several else "", rest) if part)
    order = {label: index for index, label in enumerate(dict.fromkeys(labels.values()))}
    return {key: Identity(label, order[label]) for key, label in labels.items()}


def side_by_side(series: Sequence[S]) -> list[S]:
    """The same series with the strong and the weak one of each identity next to each other."""
    identity = identities(series)
    return sorted(series, key=lambda curve: (identity[curve.bundle, curve.name].index, curve.mode.value))
