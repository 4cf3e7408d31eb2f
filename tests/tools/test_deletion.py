"""What the deletion of a feature takes away, and what it leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import ROOT, deletion
from tools.deletion import FEATURES, delete, run


def without(feature: str, folder: Path) -> list[str]:
    """Delete the feature in a copy of the last commit; return the names of the modules that are gone."""
    run(ROOT, "git clone -q --shared .", str(folder))
    delete(feature, folder)
    gone = run(folder, "git diff HEAD --name-only --diff-filter=D")
    return [name.replace("/", ".") for name in re.findall(r"^\w+/(\S+?)(?:/__init__)?\.py$", gone, re.MULTILINE)]


@pytest.mark.parametrize("feature", FEATURES)
def test_nothing_imports_or_registers_what_is_gone(feature: str, tmp_path: Path) -> None:
    gone = without(feature, tmp_path)
    assert gone
    imported = re.compile(rf"^ *(?:from|import) (?:tests\.)?({'|'.join(map(re.escape, gone))})\b", re.MULTILINE)
    files = run(tmp_path, "git ls-files *.py :!docs").split()
    assert [file for file in files if imported.search((tmp_path / file).read_text())] == []
    manifests = tmp_path.glob("api/scalecurve_api/features/*/__init__.py")
    targets = {target for path in manifests for target in re.findall(r'"(scalecurve[\w.]+)', path.read_text())}
    assert targets & set(gone) == set()


def test_one_line_registers_an_importer(tmp_path: Path) -> None:
    gone = without("superbench", tmp_path)
    assert [name.rpartition(".")[2] for name in gone] == ["superbench", "test_superbench"]
    added, removed, file = run(tmp_path, "git diff HEAD --diff-filter=M --numstat").split()
    assert (added, removed, Path(file).name) == ("0", "1", "importer.py")


@pytest.mark.processes
def test_what_is_left_is_installed_and_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(folder: Path, command: str, *words: str) -> str:
        return "" if " -m mypy " in command else run(folder, command, *words)  # its first run takes minutes

    monkeypatch.setattr(deletion, "run", quick)
    deletion.main("superbench", str(tmp_path / "copy"), "tests/importing/test_collective_files.py")
    passed, *files = capsys.readouterr().out.split()
    assert int(passed) > 0
    assert "docs/how-to/import-numbers.md" in files
    assert [file for file in files if file.startswith(("analysis/", "api/", "local/", "operator/", "worker/"))] == []
