"""The step journal of one rank: fixed-size rows appended while it runs, readable after any kill.

A 32-byte header, then 32-byte little-endian rows. A torn last row is dropped on reading. Parquet keeps its index
at the end of the file and is lost when its writer is killed; that is why steps take this form first.
"""

import struct
from typing import BinaryIO, NamedTuple

MAGIC = b"SBSTEPS1"
HEADER = struct.Struct("<8sII16x")
ROW = struct.Struct("<iiqqif")
ROW_DTYPE = [
    ("step", "<i4"),
    ("window", "<i4"),
    ("start_ns", "<i8"),
    ("duration_ns", "<i8"),
    ("samples", "<i4"),
    ("loss", "<f4"),
]
WARMUP_WINDOW = -1
NO_LOSS = float("nan")

assert HEADER.size == ROW.size == 32


class StepRow(NamedTuple):
    """One step of one rank; ``loss`` is NaN where it was not read."""

    step: int
    window: int
    start_ns: int
    duration_ns: int
    samples: int
    loss: float


class JournalError(ValueError):
    """Not a step journal, or one without a complete header."""


def write_header(file: BinaryIO, rank: int) -> None:
    """Begin a journal."""
    file.write(HEADER.pack(MAGIC, rank, ROW.size))


def pack_row(row: StepRow) -> bytes:
    """One row as stored."""
    return ROW.pack(*row)


def read_rank(data: bytes, source: str) -> int:
    """The rank that wrote this journal.

    Raises:
        JournalError: when ``data`` does not begin with a whole header of this format.
    """
    if len(data) < HEADER.size:
        raise JournalError(f"{source}: {len(data)} bytes, too short for a step journal")
    magic, rank, size = HEADER.unpack_from(data)
    if magic != MAGIC or size != ROW.size:
        raise JournalError(f"{source}: not a step journal (begins with {data[:8]!r})")
    return int(rank)


def body(data: bytes) -> memoryview:
    """The complete rows after the header."""
    whole = (len(data) - HEADER.size) // ROW.size * ROW.size
    return memoryview(data)[HEADER.size : HEADER.size + whole]
