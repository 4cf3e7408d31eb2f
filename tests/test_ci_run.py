"""The verdict of CI: `.ci/run` with every command played by a stub."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import ROOT

DUE = "#!/bin/sh\necho cluster 1 './suite'\necho 'nodes: not run: no file that it covers has changed' >&2\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which each command succeeds, and the suite `cluster` is due."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name in ("make", "sshd", "chromium"):
        stub(tmp_path / "bin" / name, "#!/bin/sh\n")
    stub(tmp_path / ".venv" / "bin" / "python", DUE)
    return tmp_path


def stub(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def verdict(project: Path) -> tuple[int, str]:
    environment = {**os.environ, "PATH": f"{project / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([project / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.partition("== gate\n")[2]


@pytest.mark.parametrize(
    ("suite", "code", "line"),
    [
        ("echo 513 passed", 0, "s  cluster\n"),
        ("echo 1 failed; exit 1", 1, "s  cluster FAILED\n"),
        ("echo 'SKIPPED [7] the time for this run is used up'", 0, "s  cluster NOT RUN TO ITS END: tests skipped\n"),
    ],
)
def test_a_due_suite_decides(project: Path, suite: str, code: int, line: str) -> None:
    stub(project / "suite", f"#!/bin/sh\n{suite}\n")
    status, stages = verdict(project)
    assert status == code
    assert line in stages
    assert "nodes: not run: no file that it covers has changed\n" in stages
    assert stages.splitlines()[-1].startswith("GATE: red" if code else "GATE: green")


@pytest.mark.parametrize("target", ["check", "test", "quickstart", "docs"])
def test_every_stage_decides(project: Path, target: str) -> None:
    stub(project / "suite", "#!/bin/sh\n")
    stub(project / "bin" / "make", f'#!/bin/sh\n[ "$1" != {target} ]\n')
    status, stages = verdict(project)
    assert status == 1
    assert f"s  make {target} FAILED\n" in stages


def test_a_suite_that_does_not_fit_is_named(project: Path) -> None:
    stub(project / "suite", "#!/bin/sh\nexit 1\n")
    stub(project / ".venv" / "bin" / "python", DUE.replace("cluster 1", "cluster 99"))
    status, stages = verdict(project)
    assert status == 0
    assert "s  cluster NOT RUN: 99 min do not fit\n" in stages
