from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools import ci_again
from tools.ci_summary import outcomes_of

TESTS = """
import pathlib

def test_flaky():
    ran = pathlib.Path(__file__).with_name("ran")
    assert ran.exists()

def test_broken():
    assert False
"""


def log_of(folder: Path, tests: list[str]) -> list[str]:
    log = folder / "tests.jsonl"
    log.write_text("".join(json.dumps({"test": test, "outcome": "failed"}) + "\n" for test in tests))
    return ["ci_again", str(log), str(folder / "again.jsonl")]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tests of its own, which log as ours do."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_logreport\n")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_only_failed_tests_run_again(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (suite / "ran").touch()
    monkeypatch.setattr(sys, "argv", log_of(suite, ["test_it.py::test_flaky"]))
    assert ci_again.main() == 0
    assert outcomes_of((suite / "again.jsonl").read_text().splitlines()) == {"test_it.py::test_flaky": "passed"}


def test_what_fails_again_has_failed(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", log_of(suite, ["test_it.py::test_flaky", "test_it.py::test_broken"]))
    assert ci_again.main() == 1


@pytest.mark.parametrize("count", [0, 4])
def test_none_and_many_are_not_run_again(count: int, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", log_of(suite, [f"test_{number}" for number in range(count)]))
    assert ci_again.main() == 1
    assert not (suite / "again.jsonl").exists()
