"""What is said of a supervisor that ended without a word."""

import shutil
from pathlib import Path

import pytest

from scalecurve_local.execution.running_trial import _silent
from scalecurve_local.supervision.supervisor import remove_tree


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert _silent(tmp_path, 120) == "ended with status 120"
    usage = shutil.disk_usage(tmp_path)._replace(free=512)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert _silent(tmp_path, 120) == f"no space left on the disk of {tmp_path} (512 bytes)"


def test_a_folder_that_is_gone_tells_nothing(tmp_path: Path):
    assert _silent(tmp_path / "gone", 1) == "ended with status 1"


def test_a_temporary_folder_that_the_program_made_a_link_is_not_emptied(tmp_path: Path) -> None:
    """A script may move its scratch files to a larger disk."""
    (tmp_path / "disk" / "inner").mkdir(parents=True)
    (tmp_path / "disk" / "file").touch()
    (tmp_path / "scratch").symlink_to(tmp_path / "disk")
    remove_tree(str(tmp_path / "scratch"))
    assert sorted(entry.name for entry in (tmp_path / "disk").iterdir()) == ["file", "inner"]
    assert not (tmp_path / "scratch").is_symlink()
