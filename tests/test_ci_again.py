from __future__ import annotations

import json
import sys
import tomllib
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


def log_of(folder: Path, tests: list[str], real: bool = True) -> list[str]:
    log = folder / "tests.jsonl"
    failure = {"outcome": "failed", "real": real, "said": "assert 0 == 1"}
    lines = [{"session": "pytest 1"}, *({"test": test, **failure} for test in tests)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
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


def test_only_failed_tests_run_again_and_a_flake_gets_its_entry(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (suite / "ran").touch()
    monkeypatch.setattr(sys, "argv", log_of(suite, ["test_it.py::test_flaky"]))
    assert ci_again.main() == 0
    assert outcomes_of((suite / "again.jsonl").read_text().splitlines()) == {"test_it.py::test_flaky": "passed"}
    (entry,) = tomllib.loads(capsys.readouterr().out.partition("flaky.toml:")[2])["flake"]
    assert (entry["test"], entry["seen"], entry["said"]) == ("test_it.py::test_flaky", 1, "assert 0 == 1")


def test_what_fails_again_has_failed(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", log_of(suite, ["test_it.py::test_flaky", "test_it.py::test_broken"]))
    assert ci_again.main() == 1


def test_where_none_failed_there_is_nothing_to_do(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", log_of(suite, []))
    assert ci_again.main() == 0
    assert not (suite / "again.jsonl").exists()


def test_a_new_test_is_not_run_again(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (suite / "ran").touch()
    monkeypatch.setattr(ci_again, "since_the_last_landing", lambda: {"test_it.py::test_flaky"})
    monkeypatch.setattr(sys, "argv", log_of(suite, ["test_it.py::test_flaky[1]"]))
    assert ci_again.main() == 1
    assert "test_it.py::test_flaky[1] is new or changed since the last landing" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "real"), [(6, True), (1, False)])
def test_many_and_those_in_one_process_are_not_run_again(
    count: int, real: bool, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", log_of(suite, [f"test_{number}" for number in range(count)], real))
    assert ci_again.main() == 1
    assert not (suite / "again.jsonl").exists()
