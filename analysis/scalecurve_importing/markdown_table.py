"""Tables of an issue or a README: rows between bars, read like those of a CSV file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scalecurve_api.text import count as counted
from scalecurve_api.text import few
from scalecurve_importing.columns import Statements, meanings
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.table_file import readings_of_rows
from scalecurve_importing.table_kinds import prepared
from scalecurve_importing.text_file import read_text

_Rows = list[tuple[str, dict[str, str]]]
_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$")
_MARKS = re.compile(r"\*\*|__|`|<br\s*/?>")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_ESCAPED = "\0"


def recognized(path: Path, head: str) -> bool:
    """Return whether the text has a table with bars and a rule below its header."""
    return next(_tables(path.name, head), None) is not None


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read the one table of a text that has results; raises SourceError where several have."""
    return readings_of_rows(path, iter(_choose_rows(path, statements)), statements)


def units_of(path: Path, statements: Statements) -> list[str]:
    """List how the columns with a unit are read."""
    table = prepared(_choose_rows(path, statements), statements)
    meant = meanings(dict.fromkeys(header for _, row in table.rows for header in row), path.name, table.statements)
    return [f"{each.header}: {each.spelled}" for each in meant.values() if each and each.spelled]


def _choose_rows(path: Path, statements: Statements) -> _Rows:
    tables = [rows for rows in _tables(path.name, read_text(path)) if rows]
    if len(tables) == 1:
        return tables[0]
    headers = [list(rows[0][1]) for rows in tables]
    if all(each == headers[0] for each in headers[1:]):
        return [row for rows in tables for row in rows]
    readable = [rows for rows in tables if _is_readable(path, rows, statements)]
    if len(readable) == 1:
        return readable[0]
    places = few([f"{rows[0][0].rpartition(', ')[2]}: {', '.join(rows[0][1])}" for rows in tables], 4)
    raise SourceError(f"{path}: has {counted(len(tables), 'table')} ({places}): keep the one that is to be imported")


def _is_readable(path: Path, rows: _Rows, statements: Statements) -> bool:
    try:
        return bool(readings_of_rows(path, iter(rows), statements))
    except SourceError:
        return False


def _tables(name: str, text: str) -> Iterator[_Rows]:
    lines = text.splitlines()
    at = 0
    while at + 1 < len(lines):
        header = _split(lines[at])
        at += 1
        if "|" not in lines[at - 1] or not _RULE.match(lines[at]) or len(set(header)) < len(header):
            continue
        at += 1
        rows: _Rows = []
        while at < len(lines) and "|" in lines[at]:
            cells = _split(lines[at])
            rows.append((f"{name}, row {at + 1}", dict(zip(header, cells, strict=False))))
            at += 1
        yield _remove_separators(rows)


def _split(line: str) -> list[str]:
    plain = line.strip().replace("\\|", _ESCAPED).removeprefix("|").removesuffix("|")
    return [_LINK.sub(r"\1", _MARKS.sub("", cell)).replace(_ESCAPED, "|").strip() for cell in plain.split("|")]


def _remove_separators(rows: Sequence[tuple[str, Mapping[str, str]]]) -> _Rows:
    """The rows without commas in thousands, where a number of the table has a point as its decimal mark."""
    texts = [text for _, row in rows for text in row.values()]
    if not any(re.fullmatch(r"\d+\.\d+\s*[%x×]?", text) or text.count(",") > 1 for text in texts):
        return [(place, dict(row)) for place, row in rows]
    return [
        (place, {name: text.replace(",", "") if _THOUSANDS.fullmatch(text) else text for name, text in row.items()})
        for place, row in rows
    ]


IMPORTER = Importer(recognized, read, units_of)
