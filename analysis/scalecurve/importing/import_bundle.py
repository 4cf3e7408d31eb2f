"""Sources -> a bundle: recognize each, read it, and write what they state together."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scalecurve.importing.columns import Statements
from scalecurve.importing.compose import Composed, compose
from scalecurve.importing.formats import importer_of
from scalecurve.importing.reading import Reading
from scalecurve.importing.write import refuse_unless_empty, write_bundle

_NOTHING = Statements()


def import_bundle(
    sources: Sequence[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    name: str | None = None,
    file_format: str | None = None,
    statements: Statements | Sequence[Statements] = _NOTHING,
    dry_run: bool = False,
) -> Composed:
    """Make a bundle of numbers that were measured elsewhere.

    Args:
        sources: Files or folders with the numbers.
        into: Folder of the new bundle.
        name: Name of the experiment; the bundle's by default.
        file_format: Format of the sources; recognized by default.
        statements: What the sources do not say themselves: one for all of them, or one for each.
        dry_run: Write nothing.

    Returns:
        What was read, and the experiment made of it.

    Raises:
        SourceError: for what cannot be imported.
        OSError: when the bundle cannot be written.
    """
    bundle, paths = Path(into), [Path(source) for source in sources]
    each = [statements] * len(paths) if isinstance(statements, Statements) else statements
    refuse_unless_empty(bundle)
    readings: list[Reading] = []
    formats: dict[str, str] = {}
    units: list[str] = []
    for path, stated in zip(paths, each, strict=True):
        formats[str(path)], importer = importer_of(path, file_format)
        readings += importer.read(path, stated)
        units += importer.units(path, stated)
    composed = compose(_name(name or bundle.resolve().name), readings)
    composed = replace(composed, formats=formats, units=tuple(dict.fromkeys(units)))
    if not dry_run:
        write_bundle(bundle, composed, paths)
    return composed


def _name(text: str) -> str:
    """A name for the experiment, of the letters that one may have."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "imported"
