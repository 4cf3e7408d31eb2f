"""Read a bundle's files by name, from a folder; ``packed`` reads them from one file."""

from dataclasses import dataclass
from functools import reduce
from operator import truediv
from pathlib import Path
from typing import Protocol

from scalecurve.bundle.problem import FileError
from scalecurve_api.files import UnsafePathError, Within


class BundleFiles(Protocol):
    """The files of one bundle."""

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a file.

        Raises FileError when it is missing, not a regular file, larger than ``limit``, damaged or unreadable.
        """

    def size(self, name: str) -> int:
        """Bytes of a file; 0 where there is none."""

    def entries(self, folder: str) -> dict[str, bool]:
        """Names in a folder, sorted, and whether each is a folder itself; empty where there is no such folder.

        Raises FileError when it cannot be listed.
        """


@dataclass(frozen=True)
class FolderFiles:
    """The bundle that an engine wrote."""

    root: Path

    def read(self, name: str, limit: int) -> bytes:
        """No link inside the bundle is followed: it may be somebody else's, and name any file of the reader."""
        try:
            return self._place(name).read(limit)
        except FileNotFoundError:
            raise FileError("missing") from None
        except UnsafePathError as error:
            raise FileError(str(error.strerror)) from error
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror}") from error

    def size(self, name: str) -> int:
        try:
            return (self.root / name).stat().st_size
        except OSError:
            return 0

    def entries(self, folder: str) -> dict[str, bool]:
        try:
            place = self._place(folder) if folder else Within(self.root)
            return {name: (place / name).is_folder() for name in place.entries()}
        except OSError as error:
            raise FileError(f"cannot be listed: {error.strerror}") from error

    def _place(self, name: str) -> Within:
        return reduce(truediv, name.split("/"), Within(self.root))
