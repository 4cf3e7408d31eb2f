"""The source documents' numbers beside ours: each command of the page prints the numbers that stand beside it."""

import re
import shlex
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/studies/documents-numbers.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "`scalecurve" in line
]


@cache
def printed(commands: tuple[str, ...]) -> str:
    """What the commands print and write as Markdown, run in an empty folder with the repository's files."""
    texts = []
    with TemporaryDirectory() as name, chdir(name):
        for linked in ("docs", "manifests"):
            Path(linked).symlink_to(ROOT / linked)
        for command in commands:
            done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, shlex.split(command)[1:])
            assert done.exit_code == 0, f"{command}: {done.output}"
            texts.append(done.output)
        texts += [file.read_text(encoding="utf-8") for file in Path("results").glob("*/report.md")]
    return "\n".join(texts)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_our_number_is_what_the_command_prints(row: list[str]) -> None:
    document, _, theirs, ours, command, difference = row
    assert all((document, theirs, difference))
    text = printed(tuple(re.findall("`([^`]+)`", command)))
    for number in ours.split("; "):
        assert re.search(rf"(?<![\w.,]){re.escape(number)}(?![\w,]|\.\d)", text), number
