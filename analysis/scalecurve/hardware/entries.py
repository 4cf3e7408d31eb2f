"""Data files of named entries with their source (devices, links, prices): built-in ones and the user's own."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from scalecurve.hardware.names import known_as, unknown
from scalecurve_api.files import read_regular

Positive = Annotated[float, Field(gt=0, lt=1e15)]
Month = Annotated[str, BeforeValidator(lambda value: str(value)[:7]), Field(pattern=r"^\d{4}-\d{2}$")]
SUFFIXES = (".yaml", ".yml", ".json")


class EntryError(ValueError):
    """An unknown name or an invalid file, in one line."""


class SourcedEntry(BaseModel):
    """Fields of every entry: a key, and where the figures come from."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    key: str
    title: str
    source: Annotated[str, Field(min_length=1)]
    note: str = ""


AnyEntry = TypeVar("AnyEntry", bound=SourcedEntry)


def load_shipped_entries(file: str, kind: type[AnyEntry]) -> dict[str, AnyEntry]:
    """The entries of a file in ``data``."""
    return entries_of_text((files("scalecurve.hardware") / "data" / file).read_text(encoding="utf-8"), file, kind)


def find_entry(reference: str, kind_name: str, shipped: Mapping[str, AnyEntry], kind: type[AnyEntry]) -> AnyEntry:
    """A built-in entry by its key, or one from a YAML or JSON file: the only one or ``FILE:KEY``. Raises EntryError."""
    name = known_as(reference, shipped)
    if name is not None:
        return shipped[name]
    file, _, key = (reference, "", "") if _is_file(reference) else reference.rpartition(":")
    if not _is_file(file):
        raise EntryError(unknown(kind_name, reference, shipped))
    entries = entries_of_file(Path(file), kind)
    if key:
        match = known_as(key, entries)
        if match is None:
            raise EntryError(f"{file}: {unknown(kind_name, key, entries)}")
        return entries[match]
    if len(entries) != 1:
        which = f": name one of them as {file}:{next(iter(entries))}" if entries else ""
        raise EntryError(f"{reference}: {len(entries)} entries, expected one {kind_name}{which}")
    return next(iter(entries.values()))


def entries_of_file(path: Path, kind: type[AnyEntry]) -> dict[str, AnyEntry]:
    """All entries of a file. Raises EntryError."""
    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise EntryError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    return entries_of_text(text, str(path), kind)


def entries_of_text(text: str, file: str, kind: type[AnyEntry]) -> dict[str, AnyEntry]:
    """A mapping of names to entries. Raises EntryError with file, entry and field."""
    try:
        tree: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise EntryError(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise EntryError(f"{file}: expected a mapping of names to entries")
    if {"apiVersion", "kind"} <= tree.keys():
        raise EntryError(f"{file}: got a {tree['kind']}; expected a mapping of names to entries")
    entries = {}
    for key, fields in tree.items():
        if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
            raise EntryError(f"{file}: {key}: expected a mapping, got {str(fields)[:60]!r}")
        try:
            entries[str(key)] = kind.model_validate({"title": str(key), **fields, "key": str(key)})
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in problem["loc"])
            value = "" if problem["type"] == "missing" else f", got {str(problem['input'])[:60]!r}"
            raise EntryError(f"{file}: {key}: {field}: {problem['msg'].lower()}{value}") from error
    return entries


def _is_file(reference: str) -> bool:
    return Path(reference).suffix.lower() in SUFFIXES
