"""Match strong and weak series: they share a color and stand side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from scalecurve.render.labels import shortened
from scalecurve_api.spec.scaling import Mode


class Named(Protocol):
    """What measured series and series results have in common."""

    @property
    def bundle(self) -> str:
        """The bundle's label."""

    @property
    def name(self) -> str:
        """The series' name, which begins with its mode."""

    @property
    def mode(self) -> Mode:
        """Strong or weak."""


S = TypeVar("S", bound=Named)


@dataclass(frozen=True)
class Identity:
    """What a strong and a weak series share: the label without the mode, and its place among all labels."""

    label: str
    index: int


def identities(series: Sequence[Named]) -> dict[tuple[str, str], Identity]:
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
