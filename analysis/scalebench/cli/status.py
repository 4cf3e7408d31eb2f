"""``scalebench status BUNDLE...``."""

from __future__ import annotations

from pathlib import Path

import click

from scalebench.cli.bundles import bundles_argument, open_all
from scalebench.cli.output import output_option, show


@click.command("status")
@bundles_argument
@output_option
def command(folders: tuple[Path, ...], output: str) -> None:
    """Show how far bundles have come, also while they run: trials done, failed, invalid, and efficiency so far."""
    from scalebench.status import status

    for bundle in open_all(folders):
        state = status(bundle)
        if output == "table":
            click.echo(state.headline)
        show([state.table()], output, {"headline": state.headline, "finished": state.finished})
