"""``scalebench status BUNDLE...``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalebench.cli.bundles import bundles_argument, open_all
from scalebench.cli.output import output_option, show

if TYPE_CHECKING:
    from scalebench.status import Status
    from scalebench.table import Table


@click.command("status")
@bundles_argument
@output_option
def command(folders: tuple[Path, ...], output: str) -> None:
    """Show how far bundles have come, also while they run: trials done, failed, invalid, and efficiency so far."""
    from scalebench.status import status

    states = [status(bundle) for bundle in open_all(folders)]
    headlines = [state.headline for state in states]
    if output == "table":
        click.echo("\n".join(headlines))
    extra = {"headlines": headlines, "finished": all(state.finished for state in states)}
    show([_joined(states)], output, extra)


def _joined(states: list[Status]) -> Table:
    """One table of them all; with several, the first column says which bundle a row is of."""
    from scalebench.table import Column

    tables = [state.table() for state in states]
    if len(states) == 1:
        return tables[0]
    return replace(
        tables[0],
        title="Points",
        columns=(Column("experiment", "Experiment"), *tables[0].columns),
        rows=tuple((state.bundle, *row) for state, table in zip(states, tables, strict=True) for row in table.rows),
        notes=tuple(note for table in tables for note in table.notes),
    )
