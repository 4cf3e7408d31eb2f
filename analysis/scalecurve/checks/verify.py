"""Is a bundle what an engine wrote? Its ledger, experiment, records and tables, and a signature of it all."""

from collections.abc import Iterator
from dataclasses import dataclass

from scalecurve.bundle.consistency import judge_again
from scalecurve.bundle.history import Claim
from scalecurve.bundle.open import CONSISTENCY, Bundle
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.steps import read_table
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Column, Table, table_of
from scalecurve_api.text import count, few

_HOLDS = {True: "holds", False: "does not hold", None: "not known"}


@dataclass(frozen=True)
class Verified(OneTable):
    """What a bundle claims; ``digest`` of the ledger's last line stands for all of it and is what is signed."""

    claims: tuple[Claim, ...]
    digest: str | None

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the bundle."""
        return all(claim.holds is not False for claim in self.claims)

    def table(self) -> Table:
        return table_of(
            "claims",
            "What the bundle claims",
            self.claims,
            (
                (Column("claim", "Claim"), lambda claim: claim.what),
                (Column("holds", "Holds"), lambda claim: _HOLDS[claim.holds]),
                (Column("detail", "Detail"), lambda claim: claim.detail),
            ),
        )


def verify(bundle: Bundle) -> Verified:
    """Hold everything in a bundle against everything else in it; every table is read.

    Args:
        bundle: The bundle.

    Returns:
        What holds, what does not, and what cannot be told.
    """
    claims = list(bundle.claims)
    if not all(claim.holds is not None for claim in claims if claim.what == CONSISTENCY):
        again = judge_again(bundle.trials, tables=True)
        detail = few(again.contradictions, 3) or "windows, steps, summary and timeline of every trial agree"
        claims = [c for c in claims if c.what != CONSISTENCY]
        claims.append(Claim(CONSISTENCY, not again.contradictions, detail))
    return Verified((*claims, *_files(bundle)), bundle.ledger.digest if bundle.ledger else None)


def _files(bundle: Bundle) -> Iterator[Claim]:
    problems = [str(problem) for problem in bundle.problems]
    tables = 0
    for trial in bundle.trials:
        for name in sorted(trial.record.files if trial.record else ()):
            try:
                read_table(trial, name)
                tables += 1
            except FileError as error:
                problems.append(f"trials/{trial.folder.name}/{name}: {error}")
    detail = few(problems, 4) if problems else f"{count(tables, 'table')}, each with the digest in its record"
    yield Claim("files", not problems, detail)
