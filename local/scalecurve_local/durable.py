"""Durable files and folders (``scalecurve_api.files``) with errors that say what to do."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalecurve_api import files
from scalecurve_local.errors import StorageError


@contextmanager
def storing(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError into one that says what could not be done, where, and what to do.

    Raises:
        StorageError: instead of any OSError inside.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise StorageError(
            f"cannot {action} {where}: {error.strerror or error}; everything recorded so far is kept: "
            "free space or fix the permissions, then continue with --resume"
        ) from error


def write_file(path: Path, data: bytes) -> None:
    """Replace ``path`` with ``data`` in one step."""
    with storing("write", path):
        files.write_atomic(path, data)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with storing("create the folder", path):
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
    """Remove a folder and its contents, if it exists."""
    with storing("remove", path):
        if path.exists():
            shutil.rmtree(path)
