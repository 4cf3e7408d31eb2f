"""Features: what is added to the core without its knowing, each by a manifest, which is text alone.

A package adds one in its ``pyproject.toml``::

    [project.entry-points."scalecurve.features"]
    my_feature = "my_package.manifest:FEATURE"
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "scalecurve.features"
PROJECT = "scalecurve_api.features."


@dataclass(frozen=True)
class Feature:
    """What a feature is, and where its parts are found.

    ``adds`` has, by group as ``scalecurve.facts``, the name of each entry and its ``module:attribute``. Nothing is
    imported before it is looked up, so that a manifest may name modules of packages that this machine lacks.
    """

    name: str
    summary: str
    adds: Mapping[str, Mapping[str, str]]
    order: int = 100  # of its entries among those of other features, as lists of choices show them


@cache
def features(of_project: bool) -> tuple[Feature, ...]:
    """Return the features of this project, or those of other packages, in their order; warn of broken ones."""
    points = [point for point in entry_points(group=GROUP) if point.value.startswith(PROJECT) is of_project]
    loaded = [feature for point in points if (feature := _load(point)) is not None]
    return tuple(sorted(loaded, key=lambda feature: (feature.order, feature.name)))


def _load(point: EntryPoint) -> Feature | None:
    try:
        feature = point.load()
    except Exception as error:  # whatever another package's module raises while it is imported
        problem = f"cannot be loaded: {type(error).__name__}: {error}"
    else:
        if isinstance(feature, Feature):
            return feature
        problem = f"is no feature: expected {Feature.__module__}.{Feature.__qualname__}, got {feature!r}"
    warnings.warn(f"entry point {GROUP}:{point.name} = {point.value} {problem}", stacklevel=4)
    return None
