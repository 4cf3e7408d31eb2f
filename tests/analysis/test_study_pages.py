"""Every heading and row on a page of studies or evidence is printed by the command above it, from committed data."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from tests.analysis.printed_tables import PAGES, WRITES, cells, printed_rows

ROOT = Path(__file__).parents[2]
WITH_TABLES = [
    page
    for page in PAGES
    if (page.name != "README.md" or page.parent.name == "predicted")
    and set(re.findall(r"^    scalecurve (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)) - set(WRITES)
]
FIT_TOLERANCE = 2e-3
"""Where a solver stops depends on the machine; a fitted number's fourth digit may be another one."""


def printed(command: str) -> list[list[str]]:
    result = CliRunner().invoke(cli, [*shlex.split(command, comments=True)[1:], "-o", "md"])
    assert result.exit_code == 0, f"{command}: {result.stderr}"
    return [cells(line) for line in result.stdout.splitlines()]


def same(shown_cell: str, printed_cell: str) -> bool:
    if shown_cell == printed_cell:
        return True
    pair = [re.fullmatch(r"(-?[\d,]*\.?\d+)( %)?", cell) for cell in (shown_cell, printed_cell)]
    if pair[0] is None or pair[1] is None:
        return False
    a, b = (float(match[1].replace(",", "")) for match in pair if match)
    digits = len(shown_cell.removesuffix(" %").partition(".")[2])
    return abs(a - b) <= max(FIT_TOLERANCE * abs(b), 1.01 * 10.0**-digits)


def within(wanted: list[str], row: list[str]) -> bool:
    """In this order, others between them: a page leaves columns out."""
    rest = iter(row)
    return all(any(same(cell, other) for other in rest) for cell in wanted)


@pytest.mark.parametrize("page", WITH_TABLES, ids=lambda page: page.stem if page.stem != "README" else "evidence")
def test_every_row_of_a_page_is_printed_by_its_command(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    rows = [(row.command, row.cells) for row in printed_rows(page.read_text(encoding="utf-8"))]
    assert len(rows) > 2, "a page with a command shows what it prints"
    of = {command: printed(command) for command in dict.fromkeys(command for command, _ in rows)}
    missing = [
        f"{command}: {wanted}" for command, wanted in rows if not any(within(wanted, row) for row in of[command])
    ]
    assert missing == []


def test_a_changed_number_is_seen():
    row = ["strong", "4", "amdahl", "14,265", "-1.6 %"]
    assert within(["strong", "amdahl", "14,265"], row)
    assert within(["strong", "amdahl", "14,270", "-1.7 %"], row)
    assert not within(["strong", "amdahl", "14,365"], row)
    assert not within(["strong", "amdahl", "-1.6 %", "14,265"], row)
    assert not within(["strong", "gustafson"], row)
