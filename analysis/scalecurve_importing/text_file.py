"""Text files of others: their text within a limit, or one line that says why not."""

from pathlib import Path

from scalecurve_api.files import open_regular, read_within
from scalecurve_importing.reading import SourceError

MOST_BYTES = 256 << 20


def read_text(path: Path) -> str:
    """Read the text of a file, with � for bytes that are not UTF-8; raises SourceError as ``read_bytes`` does."""
    return read_bytes(path).decode("utf-8-sig", "replace")


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a file; raises SourceError when it cannot be read or is larger than the limit."""
    try:
        with open_regular(path) as file:
            data = read_within(file, MOST_BYTES)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    if data is None:
        raise SourceError(f"{path}: larger than {MOST_BYTES >> 20} MiB")
    return data
