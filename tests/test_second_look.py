"""Which failed tests run again, and with what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import ROOT

TESTS = """
import pytest

runs = []

@pytest.fixture(scope="module")
def shared():
    runs.append(None)
    return len(runs)

@pytest.mark.processes
def test_unsteady(shared):
    assert shared == 2

@pytest.mark.processes
def test_next(shared):
    assert shared == 2

@pytest.mark.processes
def test_broken():
    raise ValueError

def test_in_one_process():
    runs.append(None)
    assert len(runs) > 3
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_it.py").write_text(TESTS)
    hooks = "pytest_collection_modifyitems, pytest_runtest_setup"
    (folder / "conftest.py").write_text(f"from tests.conftest import {hooks}\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        folder,
        "-n",
        "0",
        "test_it.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_test_on_real_processes_runs_again_and_is_shown_with_its_error(printed: list[str]) -> None:
    """With what its module shares made anew, for the tests behind it, too."""
    assert "RERUN test_it.py::test_unsteady" in printed
    assert "E       assert 1 == 2" in printed
    assert not [line for line in printed if line.startswith("FAILED") and ("unsteady" in line or "next" in line)]


def test_what_fails_again_has_failed(printed: list[str]) -> None:
    assert "RERUN test_it.py::test_broken" in printed
    assert any(line.startswith("FAILED test_it.py::test_broken") for line in printed)


def test_a_test_in_one_process_fails_once_and_for_all(printed: list[str]) -> None:
    assert "RERUN test_it.py::test_in_one_process" not in printed
    assert any(line.startswith("FAILED test_it.py::test_in_one_process") for line in printed)


def test_what_is_out_of_time_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_TEST_DEADLINE", "1")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "tests/test_second_look.py::test_what_fails_again_has_failed",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "the time for this run is used up" in done.stdout
    assert done.returncode == 0
