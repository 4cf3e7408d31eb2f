"""Pages of a repository that publish figures in Markdown tables, and the tables on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve_corpus.schema import NOT_STATED, CorpusError, PublishedSource
from tools.corpus.results_repository import files, origin

_HEADING = re.compile(r"#{1,6} +(.+)")
_RULE = re.compile(r"\|?[ :|-]*---[ :|-]*")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class PublishedPage:
    """A Markdown page, and where it lies in its repository."""

    name: str
    text: str


@dataclass(frozen=True)
class PageTable:
    """A table with what stands above it: its section's heading, and the last line of prose before it."""

    heading: str
    caption: str
    rows: tuple[tuple[int, Mapping[str, str]], ...]
    """The number of a line, and its cells by column."""


def published_pages(
    path: Path, folder: str, name: str, title: str, url: str
) -> tuple[PublishedSource, list[PublishedPage]]:
    """Read the pages of a repository, or one page of it.

    Args:
        path: A checkout, a bare git repository, or a Markdown file.
        folder: Where the pages lie in the repository.
        name: Name of the source.
        title: What it is called.
        url: Its address.

    Returns:
        The source, with the commit and license of the repository where there is one, and the pages by name.

    Raises:
        CorpusError: there is no such page, or it cannot be read.
    """
    if path.is_file():
        return PublishedSource(name, title, url, NOT_STATED, NOT_STATED), [PublishedPage(path.name, path.read_text())]
    below = re.compile(rf"{re.escape(folder)}/[^/]*\.md")
    pages = [
        PublishedPage(each.rpartition("/")[2], data.decode("utf-8", "replace"))
        for each, data in files(path, below.fullmatch)
        if data is not None
    ]
    if not pages:
        raise CorpusError(f"{path}: no page in {folder}; expected a checkout or bare repository of {url}, or its page")
    about = origin(path)
    return PublishedSource(name, title, url, about.license, about.revision), pages


def page_tables(page: PublishedPage) -> list[PageTable]:
    """Find the tables of a page.

    Args:
        page: In Markdown; a table has a header, a rule, and cells between bars.

    Returns:
        The tables in order; a row with more or fewer cells than columns is not in them.
    """
    tables: list[PageTable] = []
    heading = caption = ""
    columns: list[str] = []
    lines = page.text.splitlines()
    for number, line in enumerate(lines, 1):
        cells = _cells(line)
        following = lines[number] if number < len(lines) else ""
        if match := _HEADING.match(line):
            heading, caption = match[1].strip(), ""
        elif cells and _RULE.fullmatch(following.strip()):
            columns = cells
            tables.append(PageTable(heading, caption, ()))
        elif columns and len(cells) == len(columns) and not _RULE.fullmatch(line.strip()):
            last = tables[-1]
            row = (number, dict(zip(columns, cells, strict=True)))
            tables[-1] = PageTable(last.heading, last.caption, (*last.rows, row))
        elif not cells:
            columns = []
            caption = line.strip() or caption
    return [table for table in tables if table.rows]


def number_in(text: str) -> float | None:
    """The first number of a text, without the commas between its digits."""
    match = _NUMBER.search(text)
    return float(match[0].replace(",", "")) if match else None


def parse_numbers(row: Mapping[str, str], columns: Sequence[str]) -> list[float] | None:
    """The numbers of some columns of a row; None where one is missing or is no number."""
    found = [number_in(row.get(column, "")) for column in columns]
    return [each for each in found if each is not None] if None not in found else None


def _cells(line: str) -> list[str]:
    stripped = line.strip()
    if not stripped.startswith("|"):
        return []
    return [cell.strip() for cell in stripped.removeprefix("|").removesuffix("|").split("|")]
