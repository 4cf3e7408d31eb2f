"""`claims.toml`: what each number and picture on the pages is computed from."""

from __future__ import annotations

import datetime
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools import ROOT

FILE = ROOT / "claims.toml"
Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class ClaimsError(ValueError):
    """Names entry, field, what is there and what is allowed, a line for each fault."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BundleClaim(_Entry):
    """A text that is computed from a packed bundle."""

    id: Id
    bundle: str
    table: str
    """One of the report's tables."""
    where: str
    """Its row, as `pandas.DataFrame.query` takes it."""
    text: str
    """As `str.format` takes it: `{speedup:.2f}x`. Shares are in percent."""
    prices: str | None = None
    """Name of a shipped price, in place of the experiment's."""
    separator: str | None = None
    """Between the texts of several rows; without it there must be one row."""


class Quote(_Entry):
    """Words of a page with claims in them, which stand once on the page, however its lines break."""

    page: str
    text: Annotated[str, Field(pattern=r"(?s)^[^{].*\{.+\}.*[^}]$")]
    """Each claim by its id: `| 2 | {h200-strong-2-speedup} |`."""


class BundlePicture(_Entry):
    """A picture that is drawn from a bundle: a plot of its report, or a screenshot of the page."""

    file: str
    bundle: str
    plot: str | None = None
    width: int = 1280
    height: int = 800
    prices: str | None = None
    """Name of a shipped price, in place of the experiment's."""


class TerminalPicture(_Entry):
    """A picture of what a command prints."""

    file: str
    command: Annotated[list[str], Field(min_length=2)]
    columns: Annotated[int, Field(ge=40, le=200)] = 120


class Notebook(_Entry):
    """A notebook, whose outputs are what its cells give."""

    file: str


class DatedPicture(_Entry):
    """A picture that needs more than a bundle to draw: a cluster, a data set, a model."""

    file: str
    program: str
    date: datetime.date


class ClaimsFile(_Entry):
    """All of `claims.toml`."""

    claims: tuple[BundleClaim, ...] = Field(default=(), alias="claim")
    quotes: tuple[Quote, ...] = Field(default=(), alias="quote")
    pictures: tuple[BundlePicture, ...] = Field(default=(), alias="picture")
    terminals: tuple[TerminalPicture, ...] = Field(default=(), alias="terminal")
    notebooks: tuple[Notebook, ...] = Field(default=(), alias="notebook")
    dated_pictures: tuple[DatedPicture, ...] = Field(default=(), alias="dated-picture")


def read(file: Path = FILE) -> ClaimsFile:
    """Read the file.

    Raises:
        ClaimsError: for an entry with a fault, an id or a picture given twice, or a file that is not there.
    """
    try:
        claims = ClaimsFile.model_validate(tomllib.loads(file.read_text(encoding="utf-8")), strict=False)
    except tomllib.TOMLDecodeError as error:
        raise ClaimsError(f"{file.name}: {error}") from None
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise ClaimsError("\n".join(f"{file.name}: {line}" for line in lines)) from None
    if faults := list(_faults(claims)):
        raise ClaimsError("\n".join(f"{file.name}: {fault}" for fault in faults))
    return claims


def _faults(file: ClaimsFile) -> Iterator[str]:
    drawn = [each.file for kind in (file.pictures, file.terminals, file.dated_pictures) for each in kind]
    yield from _twice([*(claim.id for claim in file.claims), *drawn])
    named = [
        *((claim.id, claim.bundle) for claim in file.claims),
        *((quote.page, quote.page) for quote in file.quotes),
        *((picture.file, picture.bundle) for picture in file.pictures),
        *((picture.file, picture.program) for picture in file.dated_pictures),
    ]
    yield from (f"{name}: got {path!r}, which does not exist" for name, path in named if not (ROOT / path).is_file())


def _twice(names: Iterable[str]) -> Iterator[str]:
    return (f"{name} is given {number} times" for name, number in Counter(names).items() if number > 1)
