"""Things that are found by name: the core's by a table, features' by manifests, other packages' by entry points.

A package adds to a registry in its ``pyproject.toml``::

    [project.entry-points."scalecurve.models"]
    my_model = "my_package.models:MY_MODEL"

Nothing is imported before it is looked up, and a package that cannot be loaded fails only for whoever names its entry.
A package with several parts says all of them in one manifest, as the folders of ``scalecurve_api.features`` do::

    [project.entry-points."scalecurve.features"]
    my_feature = "my_package.manifest:FEATURE"
"""

import importlib
import pkgutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from scalecurve_api.text import did_you_mean

FEATURES = "scalecurve.features"
T = TypeVar("T")


class RegistryError(LookupError):
    """A name that is not registered, or an entry that cannot be loaded."""


def load(target: str) -> Any:
    """The object at ``module:attribute``, or the module.

    Raises:
        ImportError, AttributeError: there is no such module or attribute.
    """
    module, _, attribute = target.partition(":")
    value: Any = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        value = getattr(value, name)
    return value


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
def own_features() -> tuple[Feature, ...]:
    """Return ScaleCurve's own features in their order."""
    package = importlib.import_module("scalecurve_api.features")
    modules = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    return _sort_features(importlib.import_module(module.name).FEATURE for module in modules)


@cache
def installed_features() -> tuple[Feature, ...]:
    """Return the features of other packages in their order; warn of manifests that cannot be read."""
    return _sort_features(
        feature for point in entry_points(group=FEATURES) if (feature := _load_feature(point)) is not None
    )


def _sort_features(features: Iterable[Feature]) -> tuple[Feature, ...]:
    return tuple(sorted(features, key=lambda feature: (feature.order, feature.name)))


def _load_feature(point: EntryPoint) -> Feature | None:
    try:
        feature = point.load()
    except Exception as error:  # whatever another package's module raises while it is imported
        problem = f"cannot be loaded: {type(error).__name__}: {error}"
    else:
        if isinstance(feature, Feature):
            return feature
        problem = f"is no feature: expected {Feature.__module__}.{Feature.__qualname__}, got {feature!r}"
    warnings.warn(f"entry point {FEATURES}:{point.name} = {point.value} {problem}", stacklevel=4)
    return None


@dataclass(eq=False)
class Registry(Generic[T]):
    """Entries of one kind by name."""

    group: str  # of entry points, as scalecurve.programs
    kind: str  # what messages call an entry, as "program"
    base: type  # what an entry of another package must be: a subclass or an instance of it
    table: Mapping[str, str | T]  # the core's entries, or module:attribute of those that are imported when looked up
    unlisted: Mapping[str, str | T] = field(default_factory=dict)  # more of these, which no user chooses by name
    _loaded: dict[str, T] = field(default_factory=dict)

    @cached_property
    def built_in(self) -> dict[str, str | T]:
        """The core's entries, and those of this project's features."""
        return {**self.table, **{point.name: point.value for point in self._points(own_features())}}

    def _points(self, features: Iterable[Feature]) -> list[EntryPoint]:
        added = [feature.adds.get(self.group, {}) for feature in features]
        return [EntryPoint(name, target, self.group) for entries in added for name, target in entries.items()]

    @cached_property
    def _extensions(self) -> dict[str, EntryPoint]:
        points: dict[str, EntryPoint] = {}
        added = [*entry_points(group=self.group), *self._points(installed_features())]
        for point in sorted(added, key=lambda point: (point.name, point.value)):
            if point.name in self._own or point.name in points:
                other = _source(points[point.name]) if point.name in points else "the built-in one"
                warnings.warn(f"{_source(point)} is ignored: {self.kind} {point.name!r} is {other}", stacklevel=2)
            else:
                points[point.name] = point
        return points

    @property
    def _own(self) -> dict[str, str | T]:
        return {**self.built_in, **self.unlisted}

    def names(self) -> tuple[str, ...]:
        """Every registered name: the built-in ones, then those of installed packages in alphabetical order."""
        return (*self.built_in, *self._extensions)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._own or name in self._extensions)

    def loadable(self) -> dict[str, T]:
        """Every entry that can be loaded; each of the others is a warning."""
        entries = {}
        for name in self.names():
            try:
                entries[name] = self.get(name)
            except RegistryError as error:
                warnings.warn(str(error), stacklevel=2)
        return entries

    def get(self, name: str) -> T:
        """The entry of this name.

        Raises:
            RegistryError: the name is unknown, or its package cannot be loaded.
        """
        if name not in self._loaded:
            if (entry := self._own.get(name)) is not None:
                self._loaded[name] = load(entry) if isinstance(entry, str) else entry
            elif name in self._extensions:
                self._loaded[name] = self._load(self._extensions[name])
            else:
                near = did_you_mean(name, self.names())
                hint = f"; did you mean {near!r}?" if near else ""
                raise RegistryError(f"unknown {self.kind} {name!r}{hint} (registered: {', '.join(self.names())})")
        return self._loaded[name]

    def _load(self, point: EntryPoint) -> T:
        try:
            entry: T = point.load()
        except Exception as error:  # whatever another package's module raises while it is imported
            reason = f"{type(error).__name__}: {error}"
            raise RegistryError(f"{_source(point)} cannot be loaded: {reason}") from error
        if not (issubclass(entry, self.base) if isinstance(entry, type) else isinstance(entry, self.base)):
            expected = f"{self.base.__module__}.{self.base.__qualname__}"
            raise RegistryError(f"{_source(point)} is no {self.kind}: expected {expected}, got {entry!r}")
        return entry


def _source(point: EntryPoint) -> str:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
    return f"entry point {point.group}:{point.name} = {point.value} ({package})"
