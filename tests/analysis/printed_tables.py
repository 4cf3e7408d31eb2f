"""Tables that a page shows below the command that prints them; tests/analysis/test_study_pages.py runs those."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools import ROOT

PAGES = (*sorted((ROOT / "docs/studies").glob("*.md")), ROOT / "docs/evidence/predicted/README.md")
"""The pages whose tables are compared with what their commands print."""
WRITES = ("run", "report")
"""Verbs whose output is no table of a page."""


@dataclass(frozen=True)
class PrintedRow:
    """A heading or a row of a table under a command that only reads."""

    line: int
    command: str
    cells: list[str]


def printed_rows(page: str) -> Iterator[PrintedRow]:
    """The rows of a page that a command above them prints."""
    command, in_block = "", False
    for number, line in enumerate(page.splitlines(), start=1):
        if line.startswith("```"):
            in_block = not in_block
        elif in_block:
            if command and (row := cells(line))[1:] and not re.match(r"note:|[- ]+$", line):
                yield PrintedRow(number, command, row)
        elif line.startswith("    scalecurve "):
            command = "" if line.split()[1] in WRITES else line.strip()
        elif re.match(r"    \S", line):
            command = ""  # another program's
        elif command and line.startswith("| ") and not re.match(r"\| *:?-", line):
            yield PrintedRow(number, command, cells(line))


def cells(line: str) -> list[str]:
    """Of a row of Markdown, or of a text table."""
    line = line.strip().replace("\\*", "*")
    if line.startswith("|"):
        return [cell.strip() for cell in line.strip("|").split("|")]
    return [cell for cell in re.split(r"  +", line) if cell]
