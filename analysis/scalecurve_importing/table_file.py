"""Tables: CSV with a header, a JSON list of objects, or JSON lines; one row for each run."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalecurve_api.text import count as counted
from scalecurve_importing.columns import Meaning, Statements, copies, meanings, seconds
from scalecurve_importing.foreign import is_json, named
from scalecurve_importing.histories import ORDERS, histories
from scalecurve_importing.importer import Importer
from scalecurve_importing.message_sizes import build_table_readings
from scalecurve_importing.numbers import number
from scalecurve_importing.reading import Reading, SourceError, Stretch, Unit
from scalecurve_importing.stated import agreed, stated, tokens_a_step
from scalecurve_importing.table_kinds import merge_growing_models, prepared
from scalecurve_importing.text_file import read_text

Rows = Iterator[tuple[str, dict[str, str]]]
QUANTITIES = ("throughput", "step_time", "time", "speedup")


def read_csv(path: Path, statements: Statements) -> list[Reading]:
    """Read a CSV file; raises SourceError with the row and the column that is wrong."""
    return readings_of_rows(path, csv_rows(path), statements)


def read_json(path: Path, statements: Statements) -> list[Reading]:
    """Read a JSON file; raises SourceError with the entry and the key that is wrong."""
    return readings_of_rows(path, _json_rows(path), statements)


def units_of(path: Path, statements: Statements) -> list[str]:
    """List how the columns with a unit are read, for the summary of an import."""
    rows = _json_rows(path) if is_json(read_text(path)) else csv_rows(path)
    table = prepared(list(rows), statements)
    meant = meanings(dict.fromkeys(header for _, row in table.rows for header in row), path.name, table.statements)
    return [f"{each.header}: {each.spelled}" for each in meant.values() if each and each.spelled]


def readings_of_rows(path: Path, rows: Rows, statements: Statements) -> list[Reading]:
    """Read rows of named cells, wherever they stand; raises SourceError with the place that is wrong."""
    table = prepared(list(rows), statements)
    statements = table.statements
    if not table.rows:
        raise SourceError(f"{path}: has no row{''.join(f'; {note}' for note in table.notes[1:])}")
    meant = meanings(dict.fromkeys(header for _, row in table.rows for header in row), path.name, statements)
    ordered = table.may_be_history and any(each and each.name in ORDERS for each in meant.values())
    if any(each and each.name == "bytes" for each in meant.values()):
        return _messages(path, table.rows, meant, statements)
    results = {each.name for each in meant.values() if each and each.name in QUANTITIES}
    read = []
    for place, row in table.rows:
        fields, cells = _cells(place, row, meant)
        if ordered and results and results.isdisjoint(cells):
            continue  # a row of an evaluation, or of other metrics
        read.append((cells, _read_row(place, cells, fields, statements, ordered)))
    if not read:
        raise SourceError(f"{path}: has no row with a result")
    readings = histories(path.name, read) if ordered else merge_growing_models([reading for _, reading in read])
    return [replace(reading, notes=(*reading.notes, *table.notes)) for reading in readings]


def _messages(
    path: Path, rows: Sequence[tuple[str, dict[str, str]]], meant: Mapping[str, Meaning | None], statements: Statements
) -> list[Reading]:
    """Benchmarks of collectives: rows with the size of a message and its time."""
    timed = []
    for place, row in rows:
        fields, own = _cells(place, row, meant)
        if (name := next((each for each in ("time", "step_time") if each in fields), None)) is None:
            raise SourceError(f"{place}: has bytes and no time; expected a column such as time_us")
        if "bytes" not in own:
            raise SourceError(f"{place}: states no size of its message")
        cells = agreed(statements.facts, own, place)
        reading = stated(cells, place, f"{place}, ".__add__, {})
        timed.append((cells, reading, seconds(cells[name], fields[name], place) * 1e6))
    return build_table_readings(path, timed)


def _cells(
    place: str, row: Mapping[str, str], meant: Mapping[str, Meaning | None]
) -> tuple[dict[str, Meaning], dict[str, str]]:
    """The columns that a row fills, and what it states, by field."""
    fields: dict[str, Meaning] = {}
    cells: dict[str, str] = {}
    for header, text in row.items():
        if (each := meant[header]) is None or text.strip().lower() in ("", "nan", "null"):
            continue
        if each.name in ORDERS and each.name in fields:
            if not _surer(header, fields[each.name].header):
                continue
        elif each.name in fields:
            raise SourceError(f"{place}: columns {fields[each.name].header!r} and {header!r} are both {each.name}")
        fields[each.name], cells[each.name] = each, text.strip()
    return fields, cells


def _surer(header: str, other: str) -> bool:
    """Whether a column counts steps of the run rather than another does: ``global_step``, and not ``_step`` of W&B."""
    return ("global" in header, not header.startswith("_")) > ("global" in other, not other.startswith("_"))


def _read_row(
    place: str, written: Mapping[str, str], fields: Mapping[str, Meaning], statements: Statements, ordered: bool
) -> Reading:
    cells = agreed(statements.facts, written, place)

    def locate_field(name: str) -> str:
        return f"{place}, column {fields[name].header!r}" if name in fields else f"{place}, --set {name}"

    factors = {name: cells[name] for name in statements.factors if name in cells}
    reading = stated(cells, place, locate_field, factors, fields.get("price"))
    tokens, arithmetic = tokens_a_step(cells, reading.workers, locate_field)
    if "step_time" in fields and "throughput" not in fields and tokens is not None:
        step = seconds(cells["step_time"], fields["step_time"], locate_field("step_time"))
        unit, stretch = Unit.tokens, Stretch(tokens, step, 1)
    else:
        unit, stretch = _read_result(reading, cells, fields, place, ordered)
    return replace(reading, unit=unit, stretches=(stretch,), notes=(*reading.notes, *arithmetic))


def _read_result(
    reading: Reading, cells: Mapping[str, str], fields: Mapping[str, Meaning], place: str, ordered: bool
) -> tuple[Unit, Stretch]:
    """The one number of a row that is its result, as work in seconds."""
    name = next((name for name in QUANTITIES if name in fields), None)
    if name is None:
        raise SourceError(
            f"{place}: has no result; expected throughput (as images/s), step_time (as step_time_ms), time or speedup"
        )
    at, text, meant = f"{place}, column {fields[name].header!r}", cells[name], fields[name]
    batch = reading.global_batch
    if name == "throughput":
        rate = number(text, at) * copies(meant, reading, at)
        if "step_time" in fields:
            step = seconds(cells["step_time"], fields["step_time"], f"{place}, column {fields['step_time'].header!r}")
            return Unit(meant.unit), Stretch(rate * step, step, 1)
        if batch is not None and meant.unit == Unit.samples:
            return Unit.samples, Stretch(batch, batch / rate, 1)
        return Unit(meant.unit), Stretch(rate, 1.0)
    if name == "step_time":
        if batch is None:
            raise SourceError(f"{at}: needs the batch: a column batch_per_worker or global_batch, or --set")
        return Unit.samples, Stretch(batch, seconds(text, meant, at), 1)
    if name == "time":
        if ordered and "epoch" not in meant.header.lower():
            raise SourceError(
                f"{at}: of one row, or since the start? A table with a column step or epoch is one run over time: "
                f"state it with --column step_time={meant.header}, or add a throughput"
            )
        duration = seconds(text, meant, at)
        if "samples" in cells:
            return Unit.samples, Stretch(number(cells["samples"], f"{place}, samples"), duration)
        return Unit.runs, Stretch(1.0, duration)
    return Unit.baseline_seconds, Stretch(number(text, at), 1.0)


def csv_rows(path: Path) -> Rows:
    """Yield (place, cells by header) of every row; raises SourceError for a file that is no CSV."""
    filled = [(at, line) for at, line in enumerate(read_text(path).splitlines(), 1) if line.strip()]
    lines = [(at, line) for at, line in filled if line[0] != "#"]
    if not lines:
        raise SourceError(f"{path}: is empty; expected a header and a row for each run")
    first = filled.index(lines[0])
    head = lines[0][1]
    delimiter = max(",;\t", key=head.count)
    if first and any(map(_is_number, head.split(delimiter))):
        at, above = filled[first - 1]  # a header such as "#GPUs,img/s", or one that is marked as a comment
        if above.count(delimiter) == head.count(delimiter) > 0:
            lines.insert(0, (at, above.removeprefix("# ")))
    rows = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(rows)]
        if len(set(header)) < len(header):
            raise SourceError(f"{path}: row {lines[0][0]} names a column twice: {', '.join(header)}")
        for (at, _), cells in zip(lines[1:], rows, strict=False):
            if len(cells) != len(header):
                raise SourceError(f"{path}, row {at}: expected {counted(len(header), 'value')}, got {len(cells)}")
            yield f"{path.name}, row {at}", dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise SourceError(f"{path}: not CSV: {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json_rows(path: Path) -> Rows:
    text = read_text(path)
    try:
        tree = json.loads(text)
    except ValueError as error:
        try:
            tree = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise SourceError(f"{path}: not JSON: {error}") from error
    rows = tree if isinstance(tree, list) else _only_list(tree)
    if rows is None or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{path}: expected a list of objects, one for each run")
    for at, row in enumerate(rows, start=1):
        for name, value in row.items():
            if isinstance(value, dict | list):
                raise SourceError(
                    f"{path.name}, entry {at}, key {name!r}: expected a number or text, got {value!r:.60}"
                )
        yield f"{path.name}, entry {at}", {name: _text(value) for name, value in row.items() if value is not None}


def _only_list(tree: Any) -> list[Any] | None:
    """The one list of objects in an object, such as its ``results``."""
    if not isinstance(tree, dict):
        return None
    lists = [value for value in tree.values() if isinstance(value, list)]
    return lists[0] if len(lists) == 1 else [tree]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


JSON = Importer(lambda path, head: is_json(head) and not named(head), read_json, units_of)
CSV = Importer(lambda path, head: path.suffix.lower() in (".csv", ".tsv"), read_csv, units_of)
