"""``predict POINTS.csv``: a prediction or a refusal for every series of a file at every requested worker count.

A row has workers, throughput and, if known, series and nodes; further columns are ignored. A row without a throughput
requests a prediction at its count, on its nodes.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scalecurve.render.table import Table
from scalecurve_api.files import read_regular
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.text import count as counted
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.laws.extrapolation import Extrapolation, extrapolate, extrapolation_table
from scalecurve_models.laws.next_point import next_points, next_table
from scalecurve_models.laws.normal_form import CurvePoint

MAX_BYTES = 64 << 20
MAX_COUNT = 10**9
WORKERS, THROUGHPUT, SERIES, NODES = "workers", "throughput", "series", "nodes"


@dataclass
class PointsOfSeries:
    """The measured points of one series, and (workers, nodes) of the rows that have no throughput."""

    measured: list[CurvePoint] = field(default_factory=list)
    requested: list[tuple[int, int | None]] = field(default_factory=list)


def predict_points(path: Path, workers: Sequence[int], workers_per_node: int | None = None) -> Table:
    """Tabulate predictions as (series, workers, throughput, low, high, model, status, reason).

    Throughput is in samples/s. Besides ``workers``, a series is predicted at the counts of its rows without a
    throughput. Raises FitError for a file that cannot be read, counts below 1, or nothing to predict.
    """
    if any(n < 1 for n in workers):
        raise FitError(f"predict: worker counts must be at least 1, got {min(workers)}")
    rows: list[tuple[str, Extrapolation]] = []
    for name, series in read_series(path).items():
        stated = dict(series.requested)
        for count in [*dict.fromkeys([*workers, *stated])]:
            others = [point for point in series.measured if point.workers != count]
            predicted = extrapolate(others, count, nodes=stated.get(count), workers_per_node=workers_per_node)
            rows.append((name, predicted))
    if not rows:
        raise FitError(f"{path}: nothing to predict: add --workers 64, or rows without a throughput")
    return extrapolation_table(rows, "predicted")


def suggest_points(
    path: Path, workers: Sequence[int], workers_per_node: int | None = None, price: Cost | None = None
) -> Table:
    """Suggest what to measure next in every series, for the prediction at the largest of ``workers``."""
    series = {name: each.measured for name, each in read_series(path).items()}
    return suggestions(series, workers, workers_per_node, price)


def suggestions(
    series: Mapping[str, Sequence[CurvePoint]],
    workers: Sequence[int],
    workers_per_node: int | None = None,
    price: Cost | None = None,
) -> Table:
    """Suggest what to measure next, from measured points. Raises FitError without a count to predict."""
    if not workers or min(workers) < 1:
        raise FitError("predict: --next needs the count to predict: --workers 64")
    rows = [
        (name, at)
        for name, points in series.items()
        for at in next_points(points, max(workers), workers_per_node=workers_per_node)
    ]
    return next_table(rows, price.per_worker_hour if price else None, price.currency if price else None)


def read_series(path: Path) -> dict[str, PointsOfSeries]:
    """Read the series of a file, in its order. Raises FitError naming the file, the line, the column and its value."""
    header, rows = csv_rows(path, MAX_BYTES, str.lower)
    if missing := [name for name in (WORKERS, THROUGHPUT) if name not in header]:
        known = ",".join(header) or "(none)"
        raise FitError(
            f"{path}: no column {' or '.join(missing)}; expected series,workers,nodes,throughput, got {known}"
        )
    series: dict[str, PointsOfSeries] = {}
    for number, row in rows:
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


def csv_rows(
    path: Path, most_bytes: int, named: Callable[[str], str] = str
) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Read the columns of a file, as ``named``, and its rows with line numbers; lines that start with # are comments.

    Raises FitError naming the file, and the line whose number of values is wrong.
    """
    try:
        lines = read_regular(path, most_bytes).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FitError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"]
    reader = csv.reader(line for _, line in numbered)
    header = [named(name.strip()) for name in next(reader, [])]
    return header, _rows_by_column(path, header, zip((number for number, _ in numbered[1:]), reader, strict=False))


def _rows_by_column(
    path: Path, header: Sequence[str], rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, cells in rows:
        if len(cells) != len(header):
            raise FitError(f"{path}:{number}: expected {counted(len(header), 'value')}, got {len(cells)}")
        yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))


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
