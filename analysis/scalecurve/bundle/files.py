"""Read a bundle's files by name, from a folder; ``packed`` reads them from one file."""

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scalecurve.bundle.problem import FileError


class BundleFiles(Protocol):
    """The files of one bundle."""

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a file.

        Raises:
            FileError: when it is missing, not a regular file, larger than ``limit``, damaged or unreadable.
        """

    def entries(self, folder: str) -> dict[str, bool]:
        """Names in a folder, sorted, and whether each is a folder itself; empty where there is no such folder.

        Raises:
            FileError: when it cannot be listed.
        """


@dataclass(frozen=True)
class FolderFiles:
    """The bundle that an engine wrote."""

    root: Path

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a regular file."""
        return read_bytes(self.root / name, limit)

    def entries(self, folder: str) -> dict[str, bool]:
        """What the file system lists."""
        try:
            return {entry.name: entry.is_dir() for entry in sorted((self.root / folder).iterdir())}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise FileError(f"cannot be listed: {error.strerror}") from error


def read_bytes(path: Path, limit: int) -> bytes:
    """All bytes of a regular file.

    Raises:
        FileError: when it is missing, not a regular file, larger than ``limit`` or unreadable.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileError("not a regular file")
        if status.st_size > limit:
            raise FileError(f"{status.st_size} bytes; the limit is {limit}")
        return path.read_bytes()
    except FileNotFoundError:
        raise FileError("missing") from None
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}") from error
