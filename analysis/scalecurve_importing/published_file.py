"""Curves that others published, from a CSV file of one's own: shown beside measurements, and checked by nobody here.

Columns: workers; one of throughput (or images/s and the like), speedup, efficiency (0.95 or 95 %); and, where known,
network, title, batch_per_worker, hardware, published (2017-08), source. Rows that share the latter are one curve.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from scalecurve.curves.stated import Quantity, StatedCurve
from scalecurve_api.text import count
from scalecurve_importing.columns import Statements, meaning
from scalecurve_importing.numbers import number, whole
from scalecurve_importing.reading import SourceError
from scalecurve_importing.table_file import csv_rows

_Curve = tuple[str, str, int | None, str, str | None, str, Quantity]
_QUANTITIES: tuple[Quantity, ...] = ("throughput", "speedup", "efficiency")
_OWN = ("network", "title", "hardware", "published", "source", "efficiency", "throughput")
_SAME_AS = {"model": "network", "device": "hardware", "read_at": "source", "gpu": "hardware"}


def read_published(path: Path) -> tuple[StatedCurve, ...]:
    """Read the curves of a file; raises SourceError with the file, the row and the column that is wrong."""
    points: dict[_Curve, dict[int, float]] = {}
    for place, row in csv_rows(path):
        cells = _cells(path, row)
        if "workers" not in cells:
            raise SourceError(f"{place}: expected a column workers")
        workers = whole(cells["workers"][1], f"{place}, column {cells['workers'][0]!r}")
        given = [name for name in _QUANTITIES if name in cells]
        if len(given) != 1:
            raise SourceError(f"{place}: expected one of throughput, speedup and efficiency, got {len(given)}")
        header, text = cells[given[0]]
        at = f"{place}, column {header!r}"
        value = _share(text, at) if given[0] == "efficiency" else number(text, at)
        share = cells.get("batch_per_worker")
        batch = whole(share[1], f"{place}, column {share[0]!r}") if share else None
        month = cells["published"][1] if "published" in cells else None
        if month is not None and not re.fullmatch(r"\d{4}(-\d\d)?", month):
            raise SourceError(f"{place}, column 'published': got {month!r}, expected a year or a month such as 2017-08")
        network, title, hardware, source = (
            cells.get(name, ("", ""))[1] for name in ("network", "title", "hardware", "source")
        )
        key = (network or "(not stated)", title or path.stem, batch, hardware, month, source or path.name, given[0])
        if workers in points.setdefault(key, {}):
            raise SourceError(f"{place}: a second value of this curve at {count(workers, 'worker')}")
        points[key][workers] = value
    if not points:
        raise SourceError(f"{path}: has no row")
    return tuple(StatedCurve(*key, tuple(sorted(values.items()))) for key, values in points.items())


def _cells(path: Path, row: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Header and text of every cell that is not empty, by field."""
    cells = {}
    for header, text in row.items():
        plain = re.sub(r"[^a-z0-9]+", "_", header.strip().lower()).strip("_")
        name = _SAME_AS.get(plain, plain)
        if name not in _OWN:
            meant = meaning(header, path.name, Statements())
            if meant is None:
                continue
            name = _SAME_AS.get(meant.name, meant.name)
        if text.strip():
            cells[name] = (header, text.strip())
    return cells


def _share(text: str, place: str) -> float:
    value = number(text.rstrip("%"), place) / (100 if text.endswith("%") else 1)
    if value > 2:
        raise SourceError(f"{place}: got {text!r}, expected a share such as 0.95 or 95 %")
    return value
