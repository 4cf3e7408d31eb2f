"""Files of features beside a bundle's experiment, found by entry points in the group ``scalecurve.bundle_files``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from scalecurve.bundle.files import BundleFiles
from scalecurve.bundle.problem import FileError, UnusableFile
from scalecurve_api.registry import Registry

T = TypeVar("T")


@dataclass(frozen=True)
class BundleFile(Generic[T]):
    """A file in a bundle's folder, which is packed with it; ``parse`` raises FileError.

    ``selects`` tells that its points were chosen from more candidates, so that none of the others is missing.
    """

    name: str
    limit: int  # bytes
    parse: Callable[[bytes], T]
    selects: bool = False


Companions = Mapping[BundleFile[Any], Any]
_INSTALLED: Registry[BundleFile[Any]] = Registry("scalecurve.bundle_files", "file of bundles", BundleFile, {})


def companion_files() -> tuple[BundleFile[Any], ...]:
    """Every file that an installed feature has in bundles."""
    return tuple(_INSTALLED.loadable().values())


def read_companions(files: BundleFiles, problems: list[UnusableFile]) -> Companions:
    """Read those that a bundle has; one that cannot be used becomes a problem."""
    contents = {}
    for file in companion_files():
        if files.size(file.name):
            try:
                contents[file] = file.parse(files.read(file.name, file.limit))
            except FileError as error:
                problems.append(UnusableFile(file.name, str(error)))
    return contents
