"""Problems with a bundle's files; no content of a bundle makes the analysis fail."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class UnusableFile:
    """A file that cannot be used: its name in the bundle, and what is wrong with it."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class BundleError(ValueError):
    """A path that is not a bundle."""


class FileError(ValueError):
    """A file of a bundle that cannot be used; becomes an ``UnusableFile`` with its name."""
