"""``tables/scaling.csv`` of a report: its points, one each, without their intervals."""

import re
from dataclasses import replace
from pathlib import Path

from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.numbers import number
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.table_file import csv_rows, readings_of_rows

_HEADERS = frozenset({"series", "workers", "layout", "trials", "throughput", "throughput_low", "throughput_high"})
_NOTE = "of a report's table: its intervals are not kept, since a bundle's are of its repetitions"
_LEVEL = re.compile(r" (\S+?)=(.*?)(?= \S+?=|$)")
_SURE = 0.01


def recognized(path: Path, head: str) -> bool:
    """Return whether a report wrote this table."""
    return set(head.partition("\n")[0].strip().split(",")) >= _HEADERS


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every point that was measured; raises SourceError where what its throughput counts is not known."""
    rows: list[tuple[str, dict[str, str]]] = []
    factors: set[str] = set()
    for place, row in csv_rows(path):
        if not row["throughput"]:
            continue
        cells, levels = _cells(place, row, statements)
        factors |= levels.keys()
        rows.append((place, {**cells, **levels}))
    statements = replace(statements, factors=statements.factors | factors)
    readings = readings_of_rows(path, iter(rows), statements)
    return [replace(reading, notes=(*reading.notes, _NOTE)) for reading in readings]


def _cells(place: str, row: dict[str, str], statements: Statements) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of a point as any table has them, and the levels of its further axes."""
    mode, _, _ = row["series"].partition(" ")
    levels = {name: value for name, value in _LEVEL.findall(row["series"]) if name != "model"}
    model = {name: value for name, value in _LEVEL.findall(row["series"]) if name == "model"}
    valid = row["trials"].partition("/")[0]
    cells = {
        "mode": mode,
        "workers": row["workers"],
        "layout": row["layout"],
        f"{_unit(place, row, statements)}/s": row["throughput"],
        "repetitions": valid,
        **model,
    }
    batch = row.get("effective_batch", "")
    if batch and number(batch, f"{place}, column 'effective_batch'") % 1 == 0:
        cells["global_batch"] = str(int(float(batch)))
    if row.get("experiment"):
        levels["experiment"] = row["experiment"]
    return cells, levels


def _unit(place: str, row: dict[str, str], statements: Statements) -> str:
    """What the throughput counts: the table has samples of a step, and sequences beside tokens."""
    stated = statements.units.get("throughput", "").removesuffix("/s")
    if stated:
        return stated
    if row.get("sequences"):
        return "tokens"
    batch, step = row.get("effective_batch", ""), row.get("step_ms", "")
    if batch and step:
        rate = number(batch, place) / number(step, place) * 1e3
        if abs(rate / number(row["throughput"], place) - 1) < _SURE:
            return "samples"
    raise SourceError(
        f"{place}: its batch and step do not say what its throughput counts; add --unit throughput=samples/s "
        "or tokens/s"
    )


IMPORTER = Importer(recognized, read)
