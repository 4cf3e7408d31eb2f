"""Looking up a model of a framework's catalog by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from scalecurve_api.text import did_you_mean

S = TypeVar("S")
_ALIASES = {f"resnet{depth}": f"resnet{depth}_cifar" for depth in (20, 32, 44, 56, 110)}


class ModelError(ValueError):
    """A model that the program does not have, or a shape, class count or option that it does not take."""


def find_model(name: str, catalog: Mapping[str, S], program: str) -> S:
    """Look a model up; ``resnet20`` means ``resnet20_cifar``, and so the other CIFAR depths."""
    spec = catalog.get(_ALIASES.get(name, name))
    if spec is None:
        near = did_you_mean(name, [*catalog, *_ALIASES])
        hint = f"; did you mean {near!r}?" if near else ""
        raise ModelError(f"program {program} has no model {name!r}{hint} (available: {', '.join(catalog)})")
    return spec
