"""Run the commands of docs/questions.md in a clean clone, and see that each draws and prints what its row names.

    python -m tools.questions                  # all rows; minutes
    python -m tools.questions --reports-only   # without rows that run an experiment
    python -m tools.questions 9 16             # these rows, and those that they come after

One line a row: its number, its seconds, and what is wrong. Exit code 1 if a row is.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools import ROOT

PAGE = ROOT / "docs/questions.md"
STATES = ("in full", "small form", "imported")
_COMMAND = re.compile(r"`((?:scalecurve|python|sh|make) [^`]+)`")
_NAME = re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)|`([\w-]+\.(?:png|csv))`")
_CELL = re.compile(r"\s{2,}|[|:,;]|!\[|\]\(|\s\(|\*\*")


@dataclass(frozen=True)
class Question:
    """One row of the page."""

    number: int
    commands: tuple[str, ...]
    names: tuple[str, ...]
    """Pictures, tables and columns that it promises."""
    state: str
    after: int | None
    """The row whose commands come first."""

    @property
    def runs(self) -> bool:
        """Whether it runs an experiment, in minutes."""
        return any(re.match(r"scalecurve run\b|make ", command) for command in self.commands)


def read(page: str) -> list[Question]:
    """Read the rows of the page's table. A command cell that begins with "the same" has the commands of the row before.

    Raises:
        ValueError: for a row without five cells, without a command, or with another state.
    """
    questions: list[Question] = []
    for line in re.findall(r"^\| \d+ \|.*$", page, flags=re.M):
        number, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        if len(cells) != 4:
            raise ValueError(f"row {number}: got {len(cells) + 1} cells, expected 5")
        _, command, where, state = cells
        typed = tuple(_COMMAND.findall(command))
        commands = questions[-1].commands + typed if command.startswith("the same") else typed
        if not commands or state not in STATES:
            raise ValueError(f"row {number}: expected a command, and a state of {', '.join(STATES)}; got {state!r}")
        after = re.search(r"\bafter .*?(\d+)", command, flags=re.I)
        names = tuple(italic or file for italic, file in _NAME.findall(where))
        questions.append(Question(int(number), commands, names, state, int(after[1]) if after else None))
    return questions


def shown(text: str) -> set[str]:
    """Titles, column names and other cells of what was printed, in lower case."""
    return {cell.strip(" #\t").lower() for line in text.splitlines() for cell in (line, *_CELL.split(line))}


def missing(question: Question, there: set[str]) -> Iterator[str]:
    """What the row names that is not there."""
    yield from (name for name in question.names if name.lower() not in there)


@dataclass(frozen=True)
class CommandResult:
    """What a command gave."""

    code: int
    last_line: str
    there: frozenset[str]
    seconds: float


@cache
def run(command: str, clone: Path) -> CommandResult:
    """Run a command in the clone, and read what it printed and wrote."""
    began, clock = time.time_ns(), time.monotonic()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=clone,
        env=os.environ | {"PATH": path, "COLUMNS": "400"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - clock
    written = [file for file in clone.rglob("*.*") if file.is_file() and file.stat().st_mtime_ns >= began]
    files = {name.lower() for file in written for name in (file.name, file.stem)}
    reports = [file.read_text(encoding="utf-8") for file in written if file.suffix == ".md"]
    lines = (done.stdout + done.stderr).strip().splitlines() or [""]
    there = files | shown("\n".join([*lines, *reports]))
    return CommandResult(done.returncode, lines[-1], frozenset(there), seconds)


def wrong(question: Question, clone: Path) -> Iterator[str]:
    """Run a row, and say what is wrong with it."""
    answers = {command: run(command, clone) for command in question.commands}
    for command, answer in answers.items():
        if answer.code:
            yield f"exit code {answer.code}: {command}: {answer.last_line}"
    for name in missing(question, set().union(*(answer.there for answer in answers.values()))):
        yield f"not there: {name}"


def main(arguments: Sequence[str]) -> int:
    """Run the rows, and return 1 if one is wrong."""
    parser = argparse.ArgumentParser(
        "python -m tools.questions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW", help="number of a row; all if none is given")
    parser.add_argument("--reports-only", action="store_true", help="leave out rows that run an experiment")
    chosen = parser.parse_args(arguments)
    questions = {question.number: question for question in read(PAGE.read_text(encoding="utf-8"))}
    if unknown := set(chosen.rows) - set(questions):
        parser.error(f"ROW: got {min(unknown)}, expected 1 to {max(questions)}")
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for question in [questions[number] for number in chosen.rows] or questions.values():
            if chosen.reports_only and question.runs:
                continue
            if question.after is not None:
                for command in questions[question.after].commands:
                    run(command, clone)
            problems = list(wrong(question, clone))
            refused += bool(problems)
            seconds = sum(run(command, clone).seconds for command in question.commands)
            print(f"{question.number:>2} {seconds:>6.1f} s  {'; '.join(problems) or question.state}", flush=True)
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
