"""Tests on real processes that are new or changed run twice more, as far as the time goes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import new_tests
from tools.ci_summary import outcomes_of
from tools.landings import history_is_complete, read_landings
from tools.new_tests import functions_of, new_or_changed, seconds_of, within_budget

SOURCE = """
@pytest.mark.parametrize("a", [1])
def test_one(a):
    assert a  # comment

class TestIt:
    async def test_two(self): ...

def helper(): ...
"""


def log_of(tests: dict[str, float], outcome: str = "passed", real: bool = True) -> list[str]:
    return [
        json.dumps({"test": test, "outcome": outcome, "seconds": seconds, "real": real})
        for test, seconds in tests.items()
    ]


def test_a_test_is_changed_by_its_code_and_its_parameters_alone() -> None:
    then = functions_of(SOURCE)
    assert list(then) == ["test_one", "TestIt::test_two"]
    assert functions_of(SOURCE.replace("# comment", "").replace("helper()", "helper(a)")) == then
    for old, new in (("[1]", "[2]"), ("assert a", "assert not a")):
        changed = functions_of(SOURCE.replace(old, new))
        assert [name for name in then if changed[name] != then[name]] == ["test_one"]


def test_only_real_tests_that_passed_are_candidates() -> None:
    lines = [
        *log_of({"a.py::test_a[1]": 1.0, "a.py::test_b": 2.0}),
        *log_of({"a.py::test_a[1]": 0.5}),
        *log_of({"a.py::test_c": 1.0}, real=False),
        *log_of({"a.py::test_d": 1.0}, "failed"),
    ]
    functions = {"a.py::test_a", "a.py::test_c", "a.py::test_d"}
    assert seconds_of(lines, functions) == {"a.py::test_a[1]": 1.5}


def test_the_quickest_run_within_the_budget_and_no_slow_one() -> None:
    assert within_budget({"slow": 21.0, "quick": 1.0}) == ["quick"]
    seconds = {"b.py::test_b": 2.0, "a.py::test_c": 3.0, "a.py::test_a": 1.0}
    assert within_budget(seconds) == ["a.py::test_a", "a.py::test_c", "b.py::test_b"]
    assert within_budget({f"test_{number}": 10.0 + number for number in range(9)}) == [
        f"test_{number}" for number in range(5)
    ]


def test_a_clone_without_the_commit_knows_no_new_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert new_or_changed("f" * 40) == set()
    assert "lacks the commit" in capsys.readouterr().out


def test_what_changed_since_a_commit_of_this_history() -> None:
    if not history_is_complete():
        pytest.skip("this clone has not all commits: git fetch --unshallow")
    new = new_or_changed(read_landings()[0].commit)
    assert "tests/test_ci_again.py::test_what_fails_again_has_failed" in new
    assert all(Path(test.partition("::")[0]).name.startswith("test_") for test in new)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tests of its own, in which pytest finds the plugins of this repository."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "SCALECURVE_TEST_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("within", "runs", "said"), [("60", "123123", "6 passed"), ("0", "", "6 runs had no time left: 0 s are used up")]
)
def test_rounds_end_when_their_time_is_used_up(project: Path, within: str, runs: str, said: str) -> None:
    (project / "runs").touch()
    (project / "test_it.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('number', [1, 2, 3])\n"
        "def test_it(number):\n"
        "    with open('runs', 'a') as file:\n"
        "        file.write(str(number))\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tools.rounds", "--rounds", "2", "--rounds-within", within]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert (project / "runs").read_text() == runs
    assert said in ended.stdout


def test_new_tests_run_twice_more(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "test_it.py").write_text(
        "import pathlib\n\n"
        "def test_twice():\n"
        "    runs = pathlib.Path(__file__).with_name('runs')\n"
        "    runs.write_text(runs.read_text() + 'x')\n"
        "    assert len(runs.read_text()) < 2\n\n"
        "def test_other(): ...\n"
    )
    (project / "conftest.py").write_text("from tests.conftest import pytest_runtest_logreport\n")
    (project / "runs").write_text("")
    log = project / "tests.jsonl"
    log.write_text("\n".join(log_of({"test_it.py::test_twice": 1.0, "test_it.py::test_other": 30.0})) + "\n")
    monkeypatch.setattr(
        new_tests, "since_the_last_landing", lambda: {"test_it.py::test_twice", "test_it.py::test_other"}
    )
    monkeypatch.setattr(sys, "argv", ["new_tests", str(log)])
    assert new_tests.main() == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "1 new or changed tests on real processes run 2 times more",
        "1 do not: they take over 20 s, or 120 s for all are used up",
    ]
    assert outcomes_of(log.read_text().splitlines()) == {
        "test_it.py::test_twice": "failed",
        "test_it.py::test_other": "passed",
    }
