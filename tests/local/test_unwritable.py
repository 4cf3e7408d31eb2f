"""A bundle that cannot be written is refused before anything is waited for."""

import os
from pathlib import Path

import pytest

from scalecurve_local.bundle import BundleFolder
from scalecurve_local.errors import StorageError


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def refuse(path: Path, mode: int) -> bool:
        asked.append((path, mode))
        return False

    monkeypatch.setattr(os, "access", refuse)  # root, which tests may run as, is let in everywhere
    with pytest.raises(StorageError, match=rf"b/c: this user may not write to {tmp_path}"):
        BundleFolder(tmp_path / "b" / "c").refuse_unless_writable()
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]


def test_a_folder_yet_to_be_made_is_let_through(tmp_path: Path):
    BundleFolder(tmp_path / "b" / "c").refuse_unless_writable()
    assert list(tmp_path.iterdir()) == []
