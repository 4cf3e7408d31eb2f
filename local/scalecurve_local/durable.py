"""Files that are whole or absent after any kill and any power cut: write beside, fsync, rename, fsync the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalecurve_api import files
from scalecurve_local.errors import StorageError


@contextmanager
def storing(what: str, path: Path) -> Iterator[None]:
    """Turn an operating system's error into one that says what could not be done, where, and what to do.

    Raises:
        StorageError: instead of any OSError inside.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise StorageError(
            f"cannot {what} {where}: {error.strerror or error}; everything recorded so far is kept: "
            "make room or mend the permissions, then continue with --resume"
        ) from error


def write_file(path: Path, data: bytes) -> None:
    """Replace ``path`` with ``data`` in one step."""
    with storing("write", path):
        files.write_atomic(path, data)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably; one that is there is left as it is."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with storing("make the folder", path):
        path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_folder(folder.parent)


def rename(source: Path, target: Path) -> None:
    """Move a file or folder, durably; an empty folder at ``target`` is replaced."""
    with storing("rename to", target):
        os.rename(source, target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable."""
    with storing("sync", path):
        files.sync_folder(path)


def remove(path: Path) -> None:
    """Remove a folder and all in it; one that is not there is fine."""
    with storing("remove", path):
        if path.exists():
            shutil.rmtree(path)
