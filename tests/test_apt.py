"""Debian packages are waited for while another apt-get holds a lock. apt-get itself is played."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tools import apt

PLAYED = """#!/bin/sh
echo "$@" >> "$SAID"
if [ "$(wc -l < "$SAID")" -le "$TIMES" ]; then
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)" >&2
    exit 100
fi
exit "$CODE"
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    played = tmp_path / "bin" / "apt-get"
    played.parent.mkdir()
    played.write_text(PLAYED)
    played.chmod(0o755)
    monkeypatch.setenv("PATH", f"{played.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setenv("TIMES", "0")
    monkeypatch.setenv("CODE", "0")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return tmp_path / "said"


def test_the_lists_are_updated_first(said: Path) -> None:
    apt.install(["buildah"])
    assert said.read_text().splitlines() == [
        "--quiet update",
        "--quiet install --yes --no-install-recommends buildah",
    ]


def test_a_lock_is_waited_for(said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMES", "2")
    apt.install(["buildah"])
    assert said.read_text().count("update") == 3


def test_a_lock_that_nobody_lets_go_is_an_error(
    said: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIMES", "99")
    with pytest.raises(apt.AptError, match="apt-get update exited with 100; see its output above"):
        apt.install(["buildah"], patience_s=0)
    assert "It is held by process 1" in capfd.readouterr().err


def test_any_other_error_is_not_waited_for(said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "1")
    with pytest.raises(apt.AptError):
        apt.install(["buildah"])
    assert len(said.read_text().splitlines()) == 1
