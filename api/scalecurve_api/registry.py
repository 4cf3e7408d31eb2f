"""Things that are found by name: the project's own by a table, and those of installed packages by entry points.

A package adds to a registry in its ``pyproject.toml``::

    [project.entry-points."scalecurve.models"]
    my_model = "my_package.models:MY_MODEL"

Nothing is imported before it is looked up, and a package that cannot be loaded fails only for whoever names its entry.
"""

import importlib
import warnings
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from scalecurve_api.text import did_you_mean

T = TypeVar("T")


class RegistryError(LookupError):
    """A name that is not registered, or an entry that cannot be loaded."""


def load(target: str) -> Any:
    """The object at ``module:attribute``.

    Raises:
        ImportError, AttributeError: there is no such module or attribute.
    """
    module, _, attribute = target.partition(":")
    value: Any = importlib.import_module(module)
    for name in attribute.split("."):
        value = getattr(value, name)
    return value


class Registry(Generic[T]):
    """Entries of one kind by name."""

    def __init__(self, group: str, kind: str, base: type, built_in: Mapping[str, str | T]) -> None:
        """Describe the registry; nothing is loaded yet.

        Args:
            group: of entry points, as ``scalecurve.programs``.
            kind: what messages call an entry, as "program".
            base: what an entry of another package must be: a subclass or an instance of it.
            built_in: entries, or ``module:attribute`` of entries that are imported when they are looked up.
        """
        self.group = group
        self.kind = kind
        self._base = base
        self.built_in = built_in
        self._loaded: dict[str, T] = {}

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        points: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value)):
            if point.name in self.built_in or point.name in points:
                other = _source(points[point.name]) if point.name in points else "the built-in one"
                warnings.warn(f"{_source(point)} is ignored: {self.kind} {point.name!r} is {other}", stacklevel=2)
            else:
                points[point.name] = point
        return points

    def names(self) -> tuple[str, ...]:
        """Every registered name: the built-in ones, then those of installed packages in alphabetical order."""
        return (*self.built_in, *self._installed)

    def __contains__(self, name: object) -> bool:
        """Whether ``name`` is registered; loading it may still fail."""
        return isinstance(name, str) and (name in self.built_in or name in self._installed)

    def get(self, name: str) -> T:
        """The entry of this name.

        Raises:
            RegistryError: the name is unknown, or its package cannot be loaded.
        """
        if name not in self._loaded:
            if (entry := self.built_in.get(name)) is not None:
                self._loaded[name] = load(entry) if isinstance(entry, str) else entry
            elif name in self._installed:
                self._loaded[name] = self._load(self._installed[name])
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
        if not (issubclass(entry, self._base) if isinstance(entry, type) else isinstance(entry, self._base)):
            expected = f"{self._base.__module__}.{self._base.__qualname__}"
            raise RegistryError(f"{_source(point)} is no {self.kind}: expected {expected}, got {entry!r}")
        return entry


def _source(point: EntryPoint) -> str:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
    return f"entry point {point.group}:{point.name} = {point.value} ({package})"
