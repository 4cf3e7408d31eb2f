"""Text that fits a terminal: cells wrap within their columns.

Where even that is too wide, what is the same in every row is said once, and if that does not help a row becomes a card.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from scalecurve.render.formatting import MISSING
from scalecurve.render.table import Column, Table, display_width, one_line

GAP = 2
SEPARATOR = " · "
LEAST_TEXT = 12  # a column of text is not made narrower, unless its words are shorter
MOST_TEXT = 100


def fitted(table: Table, width: int) -> str:
    """The table as text whose lines have at most ``width`` characters, if its words do."""
    text = table.text()
    if all(display_width(line) <= width for line in text.splitlines()):
        return text
    shown = table.compact()
    headings = [one_line(column.heading) for column in shown.columns]
    rows = [[one_line(cell) for cell in row] for row in shown.spelled()]
    columns = list(zip(headings, *rows, strict=True))
    widths = _widths(columns, shown.columns, width)
    lines = [one_line(table.title)]
    if widths is None and (common := _common(columns)):
        lines += pairs(((headings[index], rows[0][index]) for index in common), width, "In all rows: ")
        kept = [index for index in range(len(headings)) if index not in common]
        headings = [headings[index] for index in kept]
        rows = [[row[index] for index in kept] for row in rows]
        shown = replace(shown, columns=tuple(shown.columns[index] for index in kept))
        widths = _widths(list(zip(headings, *rows, strict=True)), shown.columns, width)
    if widths is None:
        lines += _cards(headings, rows, width)
    else:
        lines += _wrap_row(headings, shown.columns, widths)
        lines.append("  ".join("-" * each for each in widths))
        for row in rows:
            lines += _wrap_row(row, shown.columns, widths)
    for note in shown.notes:
        lines += paragraph(f"note: {one_line(note)}", width)
    return "\n".join(lines) + "\n"


def _widths(texts: Sequence[Sequence[str]], columns: Sequence[Column], width: int) -> list[int] | None:
    """A width for each column; None where the narrowest that can be read are together too wide."""
    full = [max(map(display_width, column)) for column in texts]
    least = [min(wide, _least(column, kind)) for wide, column, kind in zip(full, texts, columns, strict=True)]
    room = width - GAP * (len(texts) - 1)
    if sum(least) > room:
        return None
    widths = least[:]
    spare = room - sum(least)
    # The column that lacks least is filled first: numbers get their width, long sentences share what is left.
    for index in sorted(range(len(full)), key=lambda i: full[i] - least[i]):
        others = sum(1 for i in range(len(full)) if widths[i] < full[i]) or 1
        more = min(full[index] - widths[index], spare // others if full[index] > MOST_TEXT else spare)
        widths[index] += more
        spare -= more
    return widths


def _least(texts: Sequence[str], column: Column) -> int:
    """The longest word; of text not less than a few words, which would make a tower of them."""
    longest = max((display_width(word) for text in texts for word in text.split()), default=1)
    return longest if column.numeric else max(longest, LEAST_TEXT)


def _wrap_row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    parts = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, parts))):
        line = [
            text.rjust(width) if column.numeric else text.ljust(width)
            for text, width, column in zip(
                (part[number] if number < len(part) else "" for part in parts), widths, columns, strict=True
            )
        ]
        lines.append((" " * GAP).join(line).rstrip())
    return lines


def _common(columns: Sequence[Sequence[str]]) -> list[int]:
    """The columns, each a heading and its cells, that are the same in every row of several; not all of them."""
    same = [index for index, (_, *cells) in enumerate(columns) if len(cells) > 1 and len(set(cells)) == 1]
    return same if len(same) < len(columns) else []


def _cards(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A block a row."""
    lines = []
    for row in rows:
        lines.append("-" * min(width, 40))
        lines += pairs(zip(headings, row, strict=True), width)
    return lines or ["(nothing)"]


def pairs(cells: Iterable[tuple[str, str]], width: int, lead: str = "") -> list[str]:
    """``heading: value``, as many in a line as fit, without those that have no value."""
    lines = [lead]
    for text in (f"{heading}: {cell}" for heading, cell in cells if cell != MISSING):
        between = "" if lines[-1] in ("", lead) else SEPARATOR
        if display_width(lines[-1] + between + text) <= width:
            lines[-1] += between + text
        else:
            lines += [""] if lines[-1].strip() else []
            *full, lines[-1] = textwrap.wrap(text, width, subsequent_indent="  ")
            lines[-1:-1] = full
    return [line.rstrip() for line in lines if line.strip()]


def paragraph(text: str, width: int) -> list[str]:
    """The words in lines of ``width``; a longer word, as a path or an address, stays in one piece to be copied."""
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
