"""Patterns of tools' lines by name: those that are shipped, and those of a file of the user's."""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from scalecurve_api.files import read_regular
from scalecurve_api.model import Model
from scalecurve_api.programs.log_format import LineReader, LogFormat
from scalecurve_importing.printed_lines import parse_printed_lines
from scalecurve_importing.reading import SourceError

SHIPPED = Path(__file__).with_name("patterns.toml")
RUN_FIELDS = frozenset({"workers", "nodes", "workers_per_node", "batch_per_worker", "global_batch", "model", "device"})
_NAME = re.compile(r"[\w.-]+")
_FEW = 3
"""Lines that a text must have of a tool to be taken for its log"""
_MOST_BYTES = 1 << 20


class ToolPattern(Model):
    """How a tool's lines are read."""

    pattern: str
    unit: Literal["samples/s", "tokens/s"] | None = Field(default=None, description="what its throughput counts")
    ok: str | None = None
    facts: tuple[str, ...] = Field(default=(), description="expressions whose named groups are fields of the run")
    automatic: bool = True
    source: str = ""


def library(further: Path | None = None) -> Mapping[str, ToolPattern]:
    """Read the patterns by name, the user's own over the shipped ones; raises SourceError for a file that has none."""
    return _read(SHIPPED) if further is None else {**_read(SHIPPED), **_read(further)}


@cache
def _read(path: Path) -> Mapping[str, ToolPattern]:
    try:
        tables = tomllib.loads(read_regular(path, _MOST_BYTES).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SourceError(f"{path}: cannot be read as TOML: {error}") from None
    found = {}
    for name, table in tables.items():
        try:
            found[name] = ToolPattern.model_validate(table)
            LogFormat(pattern=found[name].pattern)
            _check_facts(found[name].facts)
        except SourceError as error:
            raise SourceError(f"{path}: [{name}] facts: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "pattern"
            raise SourceError(f"{path}: [{name}] {field}: {first['msg'].removeprefix('Value error, ')}") from None
    return found


def _check_facts(expressions: Sequence[str]) -> None:
    """Raise SourceError for what is no expression, or states none of the fields of a run."""
    for expression in expressions:
        try:
            groups = re.compile(expression).groupindex.keys()
        except re.error as error:
            raise SourceError(f"got {expression!r}, expected a regular expression: {error}") from None
        if not groups or not groups <= RUN_FIELDS:
            fields = ", ".join(sorted(RUN_FIELDS))
            raise SourceError(f"got {expression!r}, expected named groups of {fields}")


def named(text: str, tools: Mapping[str, ToolPattern]) -> ToolPattern | None:
    """Find the pattern of this name; None for a regular expression. Raises SourceError for a name that nobody has."""
    if text in tools:
        return tools[text]
    if "(" in text or not _NAME.fullmatch(text):
        return None
    near = difflib.get_close_matches(text, tools, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise SourceError(
        f"--pattern: {text} is no known tool ({meant}known: {', '.join(sorted(tools))}), and no group in it"
    )


def recognize(head: str, tools: Mapping[str, ToolPattern]) -> str | None:
    """Find the one tool of which a text has several lines; None where it has those of none, or of two."""
    lines = [line.text for line in parse_printed_lines(head)]
    automatic = {name: tool for name, tool in tools.items() if tool.automatic}
    readers = {name: LineReader(LogFormat(pattern=tool.pattern)) for name, tool in automatic.items()}
    counts = {name: sum(reader.read(line) is not None for line in lines) for name, reader in readers.items()}
    found = [name for name, count in counts.items() if count >= _FEW]
    return found[0] if len(found) == 1 else None
