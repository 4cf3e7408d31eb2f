"""Tables: columns with name, unit and kind, rows of plain values, rendered as text, Markdown, CSV and JSON.

The written forms depend on the values alone: no locale, no clock, no path, keys sorted. CSV has six significant digits,
so that the last bits in which machines may differ never show; JSON and ``frame`` have every digit.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from scalecurve.render import formatting
from scalecurve.render.labels import shortened
from scalecurve.statistics.estimate import Estimate, RefusedNumber, is_informative

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")
Kind = Literal["text", "count", "number", "percent", "flag"]


class Mark(Enum):
    """Cells without a value."""

    PENDING = formatting.PENDING_MARK
    """Not finished yet."""
    UNKNOWN = "not known"
    """The end of an interval so wide that it says nothing."""


PENDING = Mark.PENDING
REFUSED = "refused"
_COMMAND = re.compile(r"(`\w[\w ./:=,-]*`)")
Cell = str | int | float | bool | Estimate | RefusedNumber | Mark | None
"""None is a value that is not there: not measured, or without meaning."""


@dataclass(frozen=True)
class Column:
    """``name`` is for programs (with its unit), ``title`` for people.

    ``interval`` columns hold estimates; ``detail`` ones are not shown to people, and ``keep`` ones also
    when they are empty.
    """

    name: str
    title: str
    kind: Kind = "text"
    unit: str = ""
    interval: bool = False
    detail: bool = False
    keep: bool = False

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def numeric(self) -> bool:
        return self.kind in ("count", "number", "percent")


def columns_of(kind: Kind, unit: str = "", /, **titles: str) -> tuple[Column, ...]:
    """Neighboring columns of one kind and unit, as name=title."""
    return tuple(Column(name, title, kind, unit) for name, title in titles.items())


@dataclass(frozen=True)
class Table:
    """A named table; ``notes`` say what a reader must know, one sentence each, and why cells are refused."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        reasons = (f"{REFUSED}: {cell.reason}" for row in self.rows for cell in row if isinstance(cell, RefusedNumber))
        object.__setattr__(self, "notes", tuple(dict.fromkeys((*self.notes, *reasons))))

    def spelled(self) -> list[list[str]]:
        return [[spell(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]

    def compact(self) -> Table:
        """The table as shown in text: no details, no empty columns, short series names."""
        kept = [
            index
            for index, column in enumerate(self.columns)
            if not column.detail and (column.keep or not self.rows or any(row[index] is not None for row in self.rows))
        ]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in kept), rows=rows)._shorten_names()

    def _shorten_names(self) -> Table:
        at = next((i for i, column in enumerate(self.columns) if column.name in ("series", "curve")), None)
        if at is None:
            return self
        shown, note = shortened(cell for row in self.rows if isinstance(cell := row[at], str))
        rows = tuple((*row[:at], shown.get(str(row[at]), row[at]), *row[at + 1 :]) for row in self.rows)
        return replace(self, rows=rows, notes=(*self.notes, note)) if note else self

    def text(self) -> str:
        return _text(self.compact())

    def markdown(self, titled: bool = True) -> str:
        """A Markdown table, with its title unless ``titled`` is off; no cell can break out of it."""
        return _markdown(self.compact(), titled)

    def csv(self) -> str:
        """One header line of names; an interval column becomes three: value, low, high."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(_csv_cell, _flat_names(self.columns)))
        for row in self.rows:
            writer.writerow(_flat(row, self.columns, _csv_cell))
        return out.getvalue()

    def plain(self) -> dict[str, Any]:
        """What JSON is made of: estimates as objects, pending cells as ``"?"``."""
        return {
            "name": self.name,
            "title": self.title,
            "columns": [{"name": c.name, "title": c.title, "kind": c.kind, "unit": c.unit} for c in self.columns],
            "rows": [
                {column.name: _json_cell(cell) for cell, column in zip(row, self.columns, strict=True)}
                for row in self.rows
            ],
            "notes": list(self.notes),
        }

    def json(self) -> str:
        return to_json(self.plain())

    def frame(self) -> pd.DataFrame:
        """A pandas DataFrame with the columns of the CSV and full precision; what is missing or pending is NaN/None."""
        import pandas as pd

        rows = [
            _flat(row, self.columns, lambda cell: None if isinstance(cell, Mark | RefusedNumber) else cell)
            for row in self.rows
        ]
        return pd.DataFrame(rows, columns=_flat_names(self.columns))


def table_of(
    name: str,
    title: str,
    items: Iterable[Item],
    cells: Sequence[tuple[Column, Callable[[Item], Cell]]],
    notes: Sequence[str] = (),
) -> Table:
    """A table with a row for each item; beside each column stands what its cell is."""
    rows = tuple(tuple(cell(item) for _, cell in cells) for item in items)
    return Table(name, title, tuple(column for column, _ in cells), rows, tuple(notes))


def interval_ends(low: float | None, high: float | None) -> tuple[Cell, Cell]:
    """Both ends of an interval in columns of their own; ``not known`` where it says nothing."""
    if low is not None and high is not None and not is_informative(low, high):
        return Mark.UNKNOWN, Mark.UNKNOWN
    return low, high


def experiment_column(labels: Iterable[str]) -> Column:
    """The experiment of a row: always in JSON and CSV, in tables only if there are several."""
    return Column("experiment", "Experiment", detail=len(set(labels)) < 2)


def to_json(tree: Any) -> str:
    """The JSON format of this package."""
    return json.dumps(tree, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def rounded(value: float) -> float | None:
    """Six significant digits; None for what is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def spell(cell: Cell, column: Column) -> str:
    """A cell as text."""
    if cell is None:
        return formatting.MISSING
    if isinstance(cell, Mark):
        return str(cell.value)
    if isinstance(cell, RefusedNumber):
        return REFUSED
    if isinstance(cell, Estimate):
        return formatting.interval(cell, as_percent=column.kind == "percent")
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    if column.kind == "percent":
        return formatting.percent(cell)
    return formatting.count(cell) if isinstance(cell, int) else formatting.number(cell)


def _flat_names(columns: Sequence[Column]) -> list[str]:
    names: list[str] = []
    for column in columns:
        names += [column.name, f"{column.name}_low", f"{column.name}_high"] if column.interval else [column.name]
    return names


def _flat(row: Sequence[Cell], columns: Sequence[Column], write: Callable[[Cell], Any]) -> list[Any]:
    flat: list[Any] = []
    for cell, column in zip(row, columns, strict=True):
        if not column.interval:
            flat.append(write(cell))
        elif isinstance(cell, Estimate):
            ends = (Mark.UNKNOWN, Mark.UNKNOWN) if cell.unknown else (cell.low, cell.high)
            flat += [write(cell.value), *map(write, ends)]
        else:
            flat += [write(cell), write(None), write(None)]
    return flat


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Mark):
        return str(cell.value)
    if isinstance(cell, RefusedNumber):
        return REFUSED
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        value = rounded(cell)
        return "" if value is None else repr(value)
    if isinstance(cell, str):
        text = one_line(cell).strip()
        # A spreadsheet takes such a text for a formula, which may fetch or send; "'" makes it text.
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return str(cell)


def _json_cell(cell: Cell) -> Any:
    if isinstance(cell, Estimate):
        return {
            "value": _finite(cell.value),
            "low": _finite(cell.low),
            "high": _finite(cell.high),
            "level": cell.level,
            "method": cell.method.value,
            "repetitions": cell.repetitions,
            "sessions": cell.sessions,
        } | ({"reason": cell.reason} if cell.unknown else {})
    if isinstance(cell, Mark):
        return cell.value
    if isinstance(cell, RefusedNumber):
        return {"value": None, "reason": cell.reason}
    if isinstance(cell, float):
        return _finite(cell)
    return one_line(cell) if isinstance(cell, str) else cell


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def one_line(text: str) -> str:
    """Text without line breaks, control characters and invalid Unicode."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def _text(table: Table) -> str:
    headings = [one_line(column.heading) for column in table.columns]
    rows = [[one_line(cell) for cell in row] for row in table.spelled()]
    widths = [max(map(display_width, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, width, column in zip(cells, widths, table.columns, strict=True):
            gap = " " * (width - display_width(cell))
            parts.append(gap + cell if column.numeric else cell + gap)
        return "  ".join(parts).rstrip()

    lines = [one_line(table.title), line(headings), "  ".join("-" * width for width in widths)]
    lines += [line(row) for row in rows] or ["(nothing)"]
    lines += [f"note: {one_line(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def display_width(text: str) -> int:
    """Cells of a terminal: East Asian letters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _markdown(table: Table, titled: bool) -> str:
    lines = [f"### {markdown_text(table.title)}", ""] if titled else []
    if table.rows:
        lines.append("| " + " | ".join(markdown_text(column.heading) for column in table.columns) + " |")
        lines.append("|" + "|".join(" ---: " if column.numeric else " --- " for column in table.columns) + "|")
        lines += ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in table.spelled()]
    else:
        lines.append("(nothing)")
    if table.notes:
        lines += ["", *(f"- {markdown_note(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def markdown_note(text: str) -> str:
    """A sentence escaped for Markdown, but for the commands in it: code in backticks, of plain characters."""
    parts = _COMMAND.split(one_line(text))
    return "".join(part if _COMMAND.fullmatch(part) else _escape_markdown(part) for part in parts)


def markdown_text(text: str) -> str:
    """Text escaped for Markdown: no table cell, tag, link or emphasis can begin in it."""
    return _escape_markdown(one_line(text))


def _escape_markdown(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in "\\`|*[]" else char for char in text)
