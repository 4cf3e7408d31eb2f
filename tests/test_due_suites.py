"""The long suites that CI runs, by what changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import SUITES
from tools import ROOT, due_suites
from tools.due_suites import LongSuite, list_changed_files, main, read_suites

SUITE = LongSuite("operator", "make test-operator", 5, ("operator/**", "charts/*/values.yaml"))


def git(folder: Path, *words: str, committed: str = "") -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    environment = {**os.environ, **({"GIT_COMMITTER_DATE": committed} if committed else {})}
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True, env=environment)


def commit(folder: Path, path: str, committed: str = "") -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(committed)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", path, committed=committed)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, "operator/old.py", "2020-01-01T00:00:00Z")
    monkeypatch.setattr(due_suites, "ROOT", tmp_path)
    return tmp_path


def test_a_covered_file_that_changed_today_makes_a_suite_due(clone: Path) -> None:
    assert list_changed_files(SUITE) == []
    commit(clone, "api/other.py")
    commit(clone, "charts/scalecurve/templates/values.yaml")
    assert list_changed_files(SUITE) == []
    commit(clone, "charts/scalecurve/values.yaml")
    commit(clone, "operator/reconcile/trial.py")
    assert list_changed_files(SUITE) == ["charts/scalecurve/values.yaml", "operator/reconcile/trial.py"]


def test_a_file_that_was_moved_away_counts(clone: Path) -> None:
    git(clone, "mv", "operator/old.py", "old.py")
    git(clone, "commit", "--quiet", "--message", "move")
    assert list_changed_files(SUITE) == ["operator/old.py"]


def test_a_branch_is_compared_with_its_base(clone: Path) -> None:
    git(clone, "switch", "--quiet", "--create", "branch")
    commit(clone, "operator/new.py", "2020-01-02T00:00:00Z")
    assert list_changed_files(SUITE, "main") == ["operator/new.py"]
    assert list_changed_files(SUITE, "HEAD") == []


def test_without_history_all_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_suites, "ROOT", tmp_path)
    assert list_changed_files(SUITE) is None


def test_the_nearest_to_the_change_comes_first(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    far = LongSuite("far", "make far", 1, ("api/**",))
    unchanged = LongSuite("unchanged", "make unchanged", 1, ("docs/**",))
    monkeypatch.setattr(due_suites, "read_suites", lambda: [far, unchanged, SUITE])
    for path in ("api/one.py", "operator/one.py", "operator/two.py"):
        commit(clone, path)
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["operator 5 make test-operator", "far 1 make far"]
    assert "unchanged: not run: no file that it covers has changed" in err
    assert main(["--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_table_has_every_suite_and_covers_files_that_exist() -> None:
    suites = read_suites()
    assert {suite.name for suite in suites} == {*SUITES.values(), "images"} - {"repository"}
    missing = [path for suite in suites for path in suite.paths if not any(ROOT.glob(path))]
    assert missing == []
    assert all("\n" not in suite.command for suite in suites)
