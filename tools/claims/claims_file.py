"""`claims.toml`: what each number and picture on the pages comes from."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from tools import ROOT
from tools.claims.entries import Entry, EntryError, read_entries

FILE = ROOT / "claims.toml"
Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Count = Annotated[int, Field(ge=0)]


class BundleClaim(Entry):
    """A number that is computed from a packed bundle, whenever it is asked for."""

    id: Id
    bundle: str
    table: str
    """One of the report's tables."""
    where: str
    """Its row, as `pandas.DataFrame.query` takes it."""
    text: str
    """What stands on the page, as `str.format` takes it: `{speedup:.2f}x`. Shares are in percent."""
    prices: str | None = None
    """Name of a shipped price, in place of the experiment's."""
    separator: str | None = None
    """Between the texts of several rows; without it there must be one row."""


class DatedClaim(Entry):
    """A number that a program measured on a day, on a machine that is not at hand."""

    id: Id
    text: str
    program: str
    """A program in `benchmarks/`, or a test, that measures it again."""
    evidence: str
    """The file in the repository that holds what it printed."""
    date: datetime.date
    machine: str
    result: str
    """What it printed."""
    tolerance: str
    """How far another run may be from it."""


class DatedPage(Entry):
    """A page, or part of one, that reports what a program measured on a day: its numbers are as old as that."""

    page: str
    sections: list[str] = []
    """Headings, with all that stands below them."""
    texts: list[str] = []
    """Words of the page that hold the numbers; with neither, the page as a whole."""
    program: str
    """A program in `benchmarks/` that measures them again."""
    evidence: str
    """The file in the repository that holds what it printed."""
    date: datetime.date
    machine: str


class Stated(Entry):
    """Numbers on a page that nobody measured here: a setting, a limit, a figure of somebody else's."""

    page: str
    """Its path, or `*` for all."""
    texts: list[str] = []
    """Words of the page that hold the numbers."""
    columns: list[str] = []
    """Headings of table columns."""
    why: str

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.texts and not self.columns:
            raise ValueError("expected texts or columns")
        return self


class RepeatedText(Entry):
    """Words that repeat numbers which are bound elsewhere; each number must stand there, rounded or in full."""

    page: str
    texts: Annotated[list[str], Field(min_length=1)]
    of: str | None = None
    """The page that they repeat; without it, the computed tables and claims of the same page."""


class AssertedText(Entry):
    """Words of a page that hold a limit or a value which a test asserts whenever it runs."""

    page: str
    texts: Annotated[list[str], Field(min_length=1)]
    test: Annotated[str, Field(pattern=r"^tests/.*\.py::test_\w+$")]


class BundlePicture(Entry):
    """A picture that is drawn from a bundle: a plot of its report, or a screenshot of the page."""

    file: str
    bundle: str
    plot: str | None = None
    width: int = 1280
    height: int = 800
    prices: str | None = None
    """Name of a shipped price, in place of the experiment's."""


class TerminalPicture(Entry):
    """A picture of what a command prints."""

    file: str
    command: Annotated[list[str], Field(min_length=2)]
    columns: Annotated[int, Field(ge=40, le=200)] = 120


class Notebook(Entry):
    """A notebook, whose outputs are what its cells give."""

    file: str


class DatedPicture(Entry):
    """A picture that needs more than a bundle to draw: a cluster, a data set, a model."""

    file: str
    program: str
    date: datetime.date


class Unbound(Entry):
    """How many numbers of a page are not bound yet. It only falls."""

    page: str
    numbers: Count


@dataclass(frozen=True)
class ClaimsFile:
    """All of `claims.toml`."""

    claims: tuple[BundleClaim, ...]
    dated: tuple[DatedClaim, ...]
    dated_pages: tuple[DatedPage, ...]
    stated: tuple[Stated, ...]
    repeated: tuple[RepeatedText, ...]
    asserted: tuple[AssertedText, ...]
    pictures: tuple[BundlePicture, ...]
    terminals: tuple[TerminalPicture, ...]
    notebooks: tuple[Notebook, ...]
    dated_pictures: tuple[DatedPicture, ...]
    unbound: tuple[Unbound, ...]


_TABLES = (
    *("claim", "dated", "dated-page", "stated", "repeated", "asserted"),
    *("picture", "terminal", "notebook", "dated-picture", "unbound"),
)


def read(file: Path = FILE) -> ClaimsFile:
    """Read the file.

    Raises:
        EntryError: for an entry with a fault, an id or a picture given twice, or a file that is not there.
    """
    claims = read_entries(file, "claim", BundleClaim, beside=_TABLES)
    dated = read_entries(file, "dated", DatedClaim, beside=_TABLES)
    dated_pages = read_entries(file, "dated-page", DatedPage, beside=_TABLES)
    pictures = read_entries(file, "picture", BundlePicture, beside=_TABLES)
    terminals = read_entries(file, "terminal", TerminalPicture, beside=_TABLES)
    repeated = read_entries(file, "repeated", RepeatedText, beside=_TABLES)
    asserted = read_entries(file, "asserted", AssertedText, beside=_TABLES)
    dated_pictures = read_entries(file, "dated-picture", DatedPicture, beside=_TABLES)
    faults = [
        f"{name} is given {number} times"
        for name, number in _twice([*(claim.id for claim in claims), *(each.id for each in dated)])
    ]
    drawn = [
        *(picture.file for picture in pictures),
        *(terminal.file for terminal in terminals),
        *(each.file for each in dated_pictures),
    ]
    faults += [f"{name} is given {number} times" for name, number in _twice(drawn)]
    named = [
        *((each.id, each.bundle) for each in claims),
        *((each.id, path) for each in dated for path in (_file(each.program), each.evidence)),
        *((each.page, path) for each in dated_pages for path in (each.page, _file(each.program), each.evidence)),
        *((each.page, path) for each in repeated for path in (each.page, each.of) if path),
        *((each.page, path) for each in asserted for path in (each.page, _file(each.test))),
        *((each.file, each.bundle) for each in pictures),
        *((each.file, _file(each.program)) for each in dated_pictures),
    ]
    missing = [(name, path) for name, path in named if not (ROOT / path).is_file()]
    faults += [f"{name}: got {path!r}, which is not in the repository" for name, path in missing]
    faults += [f"{each.page}: got no test {each.test}" for each in asserted if not _has_test(each.test)]
    if faults:
        raise EntryError("\n".join(f"{file.name}: {fault}" for fault in faults))
    return ClaimsFile(
        tuple(claims),
        tuple(dated),
        tuple(dated_pages),
        tuple(read_entries(file, "stated", Stated, beside=_TABLES)),
        tuple(repeated),
        tuple(asserted),
        tuple(pictures),
        tuple(terminals),
        tuple(read_entries(file, "notebook", Notebook, beside=_TABLES)),
        tuple(dated_pictures),
        tuple(read_entries(file, "unbound", Unbound, beside=_TABLES)),
    )


def _has_test(name: str) -> bool:
    path, _, function = name.partition("::")
    return (ROOT / path).is_file() and f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def _file(program: str) -> str:
    return program.partition("::")[0]  # a test stands behind its file


def _twice(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, number) for name, number in Counter(names).items() if number > 1]
