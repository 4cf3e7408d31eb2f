"""Read tables of entries from a TOML file; each entry must fit its model."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tools import ROOT


class Entry(BaseModel):
    """An entry without unknown fields and without conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class EntryError(ValueError):
    """Names file, entry, field, what is there and what is allowed, a line for each fault."""


_Entry = TypeVar("_Entry", bound=Entry)


def read_entries(file: Path, table: str, model: type[_Entry], beside: Sequence[str] = ()) -> list[_Entry]:
    """The entries `[[table]]` of a file, which may have those ``beside``, too. Raises `EntryError`."""
    name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise EntryError(f"{name}: {error}") from None
    known = dict.fromkeys((table, *beside))
    if unknown := sorted(document.keys() - known):
        raise EntryError(f"{name}: {unknown[0]}: got an unknown table, allowed: [[{']], [['.join(known)}]]")
    entries, faults = [], []
    for number, entry in enumerate(document.get(table, []), start=1):
        try:
            entries.append(model.model_validate(entry))
        except ValidationError as error:
            faults += [f"{name}: {table} {number}: {fault}" for fault in _faults(error)]
    if faults:
        raise EntryError("\n".join(faults))
    return entries


def _faults(error: ValidationError) -> list[str]:
    lines = []
    for fault in error.errors():
        field = ".".join(map(str, fault["loc"]))
        got = "nothing" if fault["type"] == "missing" else repr(fault["input"])
        lines.append(f"{field}: got {got}; {fault['msg'][:1].lower()}{fault['msg'][1:]}")
    return lines
