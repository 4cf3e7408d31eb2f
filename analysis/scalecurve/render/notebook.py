"""How results show themselves in a notebook: as their tables, escaped, without any style of their own."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Protocol

from scalecurve.render.table import Table


class _WithTable(Protocol):
    def table(self) -> Table: ...


class _WithTables(Protocol):
    def tables(self) -> Sequence[Table]: ...


class OneTable:
    """A result with a ``table()``."""

    def _repr_html_(self: _WithTable) -> str:
        return table_html(self.table())


class SeveralTables:
    """A result with ``tables()``."""

    def _repr_html_(self: _WithTables) -> str:
        return "".join(map(table_html, self.tables()))


def table_html(table: Table) -> str:
    """A table with its title as people read it; ``frame()`` has the digits."""
    shown = table.compact()
    head = _row("th", (column.heading for column in shown.columns))
    body = "".join(_row("td", cells) for cells in shown.spelled())
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in shown.notes)
    if not shown.rows:
        body = f'<tr><td colspan="{max(1, len(shown.columns))}">nothing</td></tr>'
    caption = f"<caption>{escape(table.title)}</caption>"
    return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>{notes}"


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
