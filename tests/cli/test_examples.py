"""Every command in `examples/` is typed, in a copy of its folder."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tools.claims.notebook import executed, tables

from .conftest import Desk, busy

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
NAMED = {"false-number": ("NoCommunication", "SameData")}
"""Examples whose run ends with exit code 1 → the reasons that it prints, for that is what they show."""
PRINTED = {"allreduce": ("busbw", "1 MiB"), "layouts": ("Best layout",)}
"""Example → what its run prints."""


def commands(folder: str) -> list[list[str]]:
    """The words of the example's commands."""
    text = (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    scalecurve (.*)$", text, re.MULTILINE)
    return [shlex.split(line.partition(" || ")[0]) for line in lines]


def test_every_example_is_listed() -> None:
    listed = re.findall(r"\]\(([a-z-]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == FOLDERS


@pytest.mark.processes
@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if commands(folder)])
def test_the_commands_of_an_example_work(desk: Desk, folder: str) -> None:
    shutil.copytree(EXAMPLES / folder, desk.folder, dirs_exist_ok=True)
    (desk.folder / "busy.yaml").write_text("spec: {measure: {maxForeignLoad: 1.0}}\n")
    for words in commands(folder):
        if words[0] != "run":
            desk(*words, code=0)
        elif "--" in words:  # takes no overlay
            ran = desk(*words)
            assert ran.code == 0 or busy(ran), f"{ran}"
        else:
            ran = desk(*words, "--overlay", "busy.yaml", code=int(folder in NAMED))
            printed = (*NAMED.get(folder, ()), *PRINTED.get(folder, ()))
            assert [each for each in printed if each not in ran.out] == []


@pytest.mark.processes
def test_the_notebook_shows_what_its_cells_give() -> None:
    file = EXAMPLES / "notebook" / "scaling.ipynb"
    assert list(tables(executed(file))) == list(tables(file.read_text(encoding="utf-8")))
