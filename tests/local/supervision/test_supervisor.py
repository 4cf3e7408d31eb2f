"""What is said of a supervisor that ended without a word."""

import shutil
from pathlib import Path

import pytest

from scalecurve_local.execution.running_trial import _silent


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert _silent(tmp_path, 120) == "ended with status 120"
    usage = shutil.disk_usage(tmp_path)._replace(free=512)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert _silent(tmp_path, 120) == f"no space left on the disk of {tmp_path} (512 bytes)"


def test_a_folder_that_is_gone_tells_nothing(tmp_path: Path):
    assert _silent(tmp_path / "gone", 1) == "ended with status 1"
