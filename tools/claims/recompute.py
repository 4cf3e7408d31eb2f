"""Compute a claim's text from its bundle, with the tables of the report."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pandas as pd

from scalecurve.bundle.open import open_bundle
from scalecurve.hardware.prices import find_price
from scalecurve.render.table import Table
from scalecurve.reporting.compose import report_sections
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.registry import Body
from tools import ROOT
from tools.claims.claims_file import BundleClaim


class ClaimError(ValueError):
    """A claim that its bundle does not answer."""


def text(claim: BundleClaim) -> str:
    """What the bundle says.

    Raises:
        ClaimError: where the table, the row or a column is not there, or more than one row is.
    """
    known, later = tables(ROOT / claim.bundle, claim.prices)
    while claim.table not in known:
        try:
            known |= next(later)
        except StopIteration:
            raise ClaimError(f"{claim.id}: table: got {claim.table!r}, expected {', '.join(known)}") from None
    frame = known[claim.table]
    try:
        rows = frame.query(claim.where) if claim.where else frame
    except (pd.errors.UndefinedVariableError, ValueError, SyntaxError, TypeError) as error:
        raise ClaimError(f"{claim.id}: where: {error}; columns: {', '.join(map(str, frame))}") from error
    if len(rows) != 1 and (claim.separator is None or rows.empty):
        raise ClaimError(f"{claim.id}: where: got {len(rows)} rows, expected 1")
    try:
        texts = [
            claim.text.format_map({str(name): value for name, value in row.items()}) for row in rows.to_dict("records")
        ]
    except (KeyError, ValueError, IndexError) as error:
        raise ClaimError(f"{claim.id}: text: {error!r}; columns: {', '.join(map(str, frame))}") from error
    return (claim.separator or "").join(texts)


@cache
def tables(
    bundle: Path, prices: str | None = None
) -> tuple[dict[str, pd.DataFrame], Iterator[dict[str, pd.DataFrame]]]:
    """The tables of a bundle's report so far, none, and those of each section; shares are in percent, as written.

    Sections of the models come last: to compute them takes most of the time, and few claims need it.
    """
    price = find_price(prices).cost() if prices else None
    analysis = analyze([open_bundle(bundle)], price)
    sections = sorted(report_sections(), key=lambda section: section.body.__module__.partition(".")[0])
    return {}, (_frames(section.body(analysis)) for section in sections)


def _frames(body: Body) -> dict[str, pd.DataFrame]:
    shown = (*(table for table in body.tables if table is not None and table.rows), *body.always)
    return {table.name: _convert_to_percent(table) for table in shown}


def _convert_to_percent(table: Table) -> pd.DataFrame:
    frame = table.frame()
    names = [column.name for column in table.columns if column.kind == "percent"]
    shares = [column for name in names for column in (name, f"{name}_low", f"{name}_high") if column in frame]
    return frame.assign(**{column: pd.to_numeric(frame[column], errors="coerce") * 100 for column in shares})
