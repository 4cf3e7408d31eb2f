"""Which format a source has."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from scalecurve.importing.importer import IMPORTERS, Importer
from scalecurve.importing.reading import SourceError
from scalecurve.importing.text_file import read_text
from scalecurve_api.registry import RegistryError

_HEAD = 1 << 20


def format_of(path: Path) -> str:
    """The format of a source: the first that recognizes it, an installed package's before the project's own.

    Raises SourceError when none does.
    """
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    head = "" if path.is_dir() else read_text(path)[:_HEAD]
    for name, importer in _tried():
        if importer.recognized(path, head):
            return name
    names = ", ".join(IMPORTERS.names())
    raise SourceError(f"{path}: its format was not recognized; state it with --format ({names})")


def importer_of(path: Path, name: str | None = None) -> tuple[str, Importer]:
    """The name and the importer of a source's format: the one that is named, or the one that recognizes it.

    Raises SourceError when none does, or its package cannot be loaded.
    """
    if name is None:
        name = format_of(path)
    elif not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    try:
        return name, IMPORTERS.get(name)
    except RegistryError as error:
        raise SourceError(str(error)) from None


def _tried() -> Iterator[tuple[str, Importer]]:
    own = IMPORTERS.built_in
    for name in sorted(IMPORTERS.names(), key=lambda name: name in own):
        try:
            yield name, IMPORTERS.get(name)
        except RegistryError as error:  # of another package: the others still read what is theirs
            warnings.warn(str(error), stacklevel=2)
