"""`claims.toml`: what each number and picture on the pages comes from."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tools.ledger import ROOT, LedgerEntry, LedgerError, read_entries

FILE = ROOT / "claims.toml"
Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Count = Annotated[int, Field(ge=0)]


class BundleClaim(LedgerEntry):
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


class DatedClaim(LedgerEntry):
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


class DatedPage(LedgerEntry):
    """A page that reports what programs measured on a day: its numbers are as old as that."""

    page: str
    program: str
    """A program in `benchmarks/` that measures them again."""
    evidence: str
    """The file in the repository that holds what it printed."""
    date: datetime.date
    machine: str


class Stated(LedgerEntry):
    """Numbers on a page that nobody measured here: a setting, a limit, a figure of somebody else's."""

    page: str
    """Its path, or `*` for all."""
    texts: Annotated[list[str], Field(min_length=1)]
    """Words of the page that hold the numbers."""
    why: str


class BundlePicture(LedgerEntry):
    """A picture that is drawn from a bundle: a plot of its report, or a screenshot of the page."""

    file: str
    bundle: str
    plot: str | None = None
    width: int = 1280
    height: int = 800
    prices: str | None = None
    """Name of a shipped price, in place of the experiment's."""


class TerminalPicture(LedgerEntry):
    """A picture of what a command prints."""

    file: str
    command: Annotated[list[str], Field(min_length=2)]
    columns: Annotated[int, Field(ge=40, le=200)] = 120


class Notebook(LedgerEntry):
    """A notebook, whose outputs are what its cells give."""

    file: str


class DatedPicture(LedgerEntry):
    """A picture that needs more than a bundle to draw: a cluster, a data set, a model."""

    file: str
    program: str
    date: datetime.date


class Unbound(LedgerEntry):
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
    pictures: tuple[BundlePicture, ...]
    terminals: tuple[TerminalPicture, ...]
    notebooks: tuple[Notebook, ...]
    dated_pictures: tuple[DatedPicture, ...]
    unbound: tuple[Unbound, ...]


_TABLES = ("claim", "dated", "dated-page", "stated", "picture", "terminal", "notebook", "dated-picture", "unbound")


def read(file: Path = FILE) -> ClaimsFile:
    """Read the file.

    Raises:
        LedgerError: for an entry with a fault, an id or a picture given twice, or a file that is not there.
    """
    claims = read_entries(file, "claim", BundleClaim, beside=_TABLES)
    dated = read_entries(file, "dated", DatedClaim, beside=_TABLES)
    dated_pages = read_entries(file, "dated-page", DatedPage, beside=_TABLES)
    pictures = read_entries(file, "picture", BundlePicture, beside=_TABLES)
    terminals = read_entries(file, "terminal", TerminalPicture, beside=_TABLES)
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
        *((each.id, path) for each in dated for path in (each.program.partition("::")[0], each.evidence)),
        *((each.page, path) for each in dated_pages for path in (each.page, each.program, each.evidence)),
        *((each.file, each.bundle) for each in pictures),
        *((each.file, each.program.partition("::")[0]) for each in dated_pictures),
    ]
    missing = [(name, path) for name, path in named if not (ROOT / path).is_file()]
    faults += [f"{name}: got {path!r}, which is not in the repository" for name, path in missing]
    if faults:
        raise LedgerError("\n".join(f"{file.name}: {fault}" for fault in faults))
    return ClaimsFile(
        tuple(claims),
        tuple(dated),
        tuple(dated_pages),
        tuple(read_entries(file, "stated", Stated, beside=_TABLES)),
        tuple(pictures),
        tuple(terminals),
        tuple(read_entries(file, "notebook", Notebook, beside=_TABLES)),
        tuple(dated_pictures),
        tuple(read_entries(file, "unbound", Unbound, beside=_TABLES)),
    )


def _twice(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, number) for name, number in Counter(names).items() if number > 1]
