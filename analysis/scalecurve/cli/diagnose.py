"""``scalecurve diagnose BUNDLE...``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import bundles_argument, open_all
from scalecurve.cli.output import output_option, show


@click.command("diagnose")
@bundles_argument
@output_option
def command(folders: tuple[Path, ...], output: str) -> None:
    """Find stragglers, drift, bimodal steps, slow ranks and short warm-ups, with evidence and a suggested action."""
    from scalecurve.checks.diagnose import diagnose

    show([diagnose(open_all(folders)).table()], output)
