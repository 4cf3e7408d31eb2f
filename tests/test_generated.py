"""The registry of generated files: complete, and it names and repairs what is stale."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import generated
from tools.generated import ELSEWHERE, KINDS, GeneratedFiles

ROOT = Path(__file__).parents[1]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GeneratedFiles:
    """A kind with a current file, a changed one, one that is missing, and a leftover."""
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    for name, text in {"current": "1", "changed": "old", "leftover": "3", "README": "by hand"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    texts = {tmp_path / f"{name}.txt": text for name, text in {"current": "1", "changed": "2", "new": "4"}.items()}
    return GeneratedFiles("numbers", "numbers.py", ("[a-z]*.txt",), lambda: texts)


def test_a_stale_file_is_named(files: GeneratedFiles, capsys: pytest.CaptureFixture[str]) -> None:
    assert generated.check([files]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "changed.txt: not what numbers.py gives; `make fix` repairs it",
        "new.txt: not what numbers.py gives; `make fix` repairs it",
        "leftover.txt: not generated any more; `make fix` repairs it",
    ]


def test_what_is_stale_is_written_and_nothing_else(files: GeneratedFiles, tmp_path: Path) -> None:
    untouched = (tmp_path / "current.txt").stat().st_mtime_ns
    assert generated.write([files]) == 0
    assert {path.stem: path.read_text() for path in tmp_path.iterdir()} == {
        "README": "by hand",
        "changed": "2",
        "current": "1",
        "new": "4",
    }
    assert (tmp_path / "current.txt").stat().st_mtime_ns == untouched
    assert generated.check([files]) == 0


def test_a_source_that_nothing_can_be_made_of_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    broken = GeneratedFiles("numbers", "numbers.py", ("*.txt",), lambda: {ROOT: str(int("one"))})
    assert generated.check([broken]) == 1
    assert capsys.readouterr().out.startswith("numbers: cannot be generated from numbers.py: invalid literal")


def test_a_kind_whose_binary_is_not_built_is_skipped_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generated.toolchain, "missing", list)
    assert generated.check([files for files in KINDS if files.needs]) == 0
    skipped = capsys.readouterr().out.splitlines()
    assert skipped[0] == "skipped: golden-templates (helm is not built: `make cluster-tools`)"
    assert len(skipped) == 2


def test_every_file_that_says_it_is_generated_is_in_the_registry() -> None:
    known = {path for files in KINDS for pattern in files.patterns for path in ROOT.glob(pattern)}
    marked = subprocess.run(
        ["git", "grep", "-lE", "generated (by|from) .*do not edit", "--", ".", ":!*.py", ":!docs/evidence"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {ROOT / name for name in marked} <= known


def test_every_pattern_has_its_files() -> None:
    patterns = [*(pattern for files in KINDS for pattern in files.patterns), *ELSEWHERE]
    assert [pattern for pattern in patterns if not list(ROOT.glob(pattern))] == []
