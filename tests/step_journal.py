"""Read step journals row by row; the product reads columns."""

from collections.abc import Iterator
from pathlib import Path

from scalecurve_api.record.journal import ROW, StepRow, body, read_rank


def read_rows(path: Path) -> Iterator[StepRow]:
    """Every complete row of a journal on disk."""
    data = path.read_bytes()
    read_rank(data, str(path))
    for fields in ROW.iter_unpack(body(data)):
        yield StepRow(*fields)
