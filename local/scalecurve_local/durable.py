"""Durable files and folders (``scalecurve_api.files``) with errors that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalecurve_api.files import UnsafePathError, Within
from scalecurve_local.errors import StorageError


@contextmanager
def storing(action: str, path: Path | Within) -> Iterator[None]:
    """Turn an OSError into one that says what could not be done, where, and what to do.

    Raises:
        StorageError: instead of any OSError inside.
    """
    try:
        yield
    except UnsafePathError as error:
        raise StorageError(
            f"cannot {action} {error.filename}: {error.strerror}; everything recorded so far is kept: "
            "take it away, then continue with --resume"
        ) from error
    except FileNotFoundError as error:
        raise StorageError(
            f"cannot {action} {error.filename or path}: {error.strerror}; use a folder that can be written"
        ) from error
    except OSError as error:
        where = error.filename or path
        raise StorageError(
            f"cannot {action} {where}: {error.strerror or error}; everything recorded so far is kept: "
            "free space or fix the permissions, then continue with --resume"
        ) from error


def write_file(place: Within, data: bytes) -> None:
    """Replace a file with ``data`` in one step."""
    with storing("write", place):
        place.write(data)


def make_folder(place: Within) -> None:
    """Create a folder and its parents, durably."""
    with storing("create the folder", place):
        place.make()


def rename(source: Within, target: Within) -> None:
    """Move a file or folder, durably; an empty folder at ``target`` is replaced."""
    with storing("rename to", target):
        source.rename(target)


def remove(place: Within) -> None:
    """Remove a folder and its contents, or a file, if it exists."""
    with storing("remove", place):
        place.remove()
