"""``scalecurve allreduce BUNDLE...``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import bundles_argument, open_all
from scalecurve.cli.output import output_option, show


@click.command("allreduce")
@bundles_argument
@output_option
def command(folders: tuple[Path, ...], output: str) -> None:
    """Show the all-reduce microbenchmark by message size: latency, algbw and busbw with their range."""
    from scalecurve.curves.allreduce import allreduce

    show([allreduce(open_all(folders)).table()], output)
