"""What is wrong with a bundle's files, said in one sentence; nothing in a bundle makes analysis fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class UnusableFile:
    """A file that could not be used: ``file`` is relative to the bundle, ``what`` says what happened and what to do."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class BundleError(ValueError):
    """A path that is no bundle at all."""


class FileError(ValueError):
    """A file of a bundle that cannot be used; becomes a ``UnusableFile`` where the file's name is known."""
