"""What the deletion of a feature takes away, and what it leaves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools import ROOT
from tools.deletion import FEATURES, delete, main, run

IMPORTER = "tests/analysis/importing/test_collective_files.py"


def deleted(feature: str, folder: Path) -> set[str]:
    """The files that are gone from a copy of the last commit."""
    run(ROOT, f"git clone -q --shared . {folder}")
    delete(feature, folder)
    return set(run(folder, "git diff HEAD --name-only --diff-filter=D").split())


@pytest.mark.parametrize("feature", FEATURES)
def test_nothing_imports_or_registers_what_is_gone(feature: str, tmp_path: Path) -> None:
    gone = deleted(feature, tmp_path)
    modules = {
        file.partition("/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file in gone
        if file.endswith(".py") and "/scalecurve" in file
    }
    assert modules
    said = re.compile(rf"(?:from|import) ({'|'.join(map(re.escape, modules))})\b")
    for file in run(tmp_path, "git ls-files *.py").split():
        assert not said.search((tmp_path / file).read_text()), file
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    values = [value for group in project["entry-points"].values() for value in group.values()]
    assert not modules & {value.partition(":")[0] for value in values}


def test_one_line_registers_an_importer(tmp_path: Path) -> None:
    assert deleted("superbench", tmp_path) == {
        "analysis/scalecurve/importing/superbench.py",
        "tests/analysis/importing/test_superbench.py",
    }
    assert run(tmp_path, "git diff HEAD --name-only --diff-filter=M") == "analysis/scalecurve/importing/importer.py\n"
    assert run(tmp_path, "git diff HEAD --diff-filter=M --numstat").split()[:2] == ["0", "1"]


@pytest.mark.processes
@pytest.mark.timeout(900)  # mypy's first run of a clone takes minutes
def test_what_is_left_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main("superbench", f"{tmp_path}/copy", IMPORTER)
    passed, *files = capsys.readouterr().out.split("\n")
    assert re.match(r"\d+ passed", passed)
    assert not [file for file in files if file.startswith(("analysis/", "api/", "operator/", "worker/"))]
