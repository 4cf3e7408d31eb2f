"""Points of curves from a CSV file, for ``predict POINTS.csv``: workers and throughput, if known series and nodes.

A row without a throughput requests a prediction at its count, on its nodes. Further columns are ignored.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path

from scalecurve_api.text import count as counted
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.laws.normal_form import CurvePoint

MAX_BYTES = 64 << 20
MAX_COUNT = 10**9
WORKERS, THROUGHPUT, SERIES, NODES = "workers", "throughput", "series", "nodes"


@dataclass
class PointsOfSeries:
    """The measured points of one series, and (workers, nodes) of the rows that have no throughput."""

    measured: list[CurvePoint] = field(default_factory=list)
    requested: list[tuple[int, int | None]] = field(default_factory=list)


def read_series(path: Path) -> dict[str, PointsOfSeries]:
    """The series of a file, in its order. Raises FitError naming the file, the line, the column and its value."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FitError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FitError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"]
    rows = csv.reader(line for _, line in numbered)
    header = [name.strip().lower() for name in next(rows, [])]
    if missing := [name for name in (WORKERS, THROUGHPUT) if name not in header]:
        known = ",".join(header) or "(none)"
        raise FitError(
            f"{path}: no column {' or '.join(missing)}; expected series,workers,nodes,throughput, got {known}"
        )
    series: dict[str, PointsOfSeries] = {}
    for (number, _), cells in zip(numbered[1:], rows, strict=False):
        if len(cells) != len(header):
            raise FitError(f"{path}:{number}: expected {counted(len(header), 'value')}, got {len(cells)}")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        where = f"{path}:{number}"
        workers = _count(where, WORKERS, row[WORKERS])
        nodes = _count(where, NODES, row[NODES]) if row.get(NODES) else None
        if nodes is not None and nodes > workers:
            raise FitError(f"{where}: nodes {nodes} exceed workers {workers}")
        here = series.setdefault(row.get(SERIES, ""), PointsOfSeries())
        if row[THROUGHPUT]:
            here.measured.append(CurvePoint(workers, _rate(where, row[THROUGHPUT]), nodes))
        else:
            here.requested.append((workers, nodes))
    if not any(each.measured for each in series.values()):
        raise FitError(f"{path}: has no row with a throughput")
    return series


def _count(where: str, column: str, text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value <= MAX_COUNT or value != int(value):
        raise FitError(f"{where}: {column} {text!r}: expected an integer of at least 1")
    return int(value)


def _rate(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise FitError(
            f"{where}: {THROUGHPUT} {text!r}: expected a positive number, or nothing to request a prediction"
        )
    return value
