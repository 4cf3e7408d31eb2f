"""Atomic file replacement."""

import os
import threading
from pathlib import Path

import pytest

from scalecurve_api.files import atomic_file, write_atomic


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_atomic(target, "einß")
    write_atomic(target, b"two")
    assert target.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.json"]


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = tmp_path / "a", []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        kind = "folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file"
        seen.append((kind, target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    write_atomic(target, b"x")
    assert seen == [("file", False), ("folder", True)]


def test_an_error_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_atomic(target, b"old")
    with pytest.raises(TypeError), atomic_file(target) as file:
        file.write(["not bytes"])  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "none" / "a", b"x")


def test_concurrent_writers_never_mix(tmp_path: Path) -> None:
    target = tmp_path / "a"
    texts = [str(index) * 10_000 for index in range(8)]
    threads = [threading.Thread(target=write_atomic, args=(target, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_text() in texts
    assert os.listdir(tmp_path) == ["a"]
