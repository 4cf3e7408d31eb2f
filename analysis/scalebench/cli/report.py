"""``scalebench report BUNDLE...``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalebench.cli import EXIT_ENVIRONMENT
from scalebench.cli.bundles import bundles_argument, open_all
from scalebench.cli.output import fail

if TYPE_CHECKING:
    from scalebench.bundle import Bundle


@click.command("report")
@bundles_argument
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write to. [default: <first bundle>/report]")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(("html", "md", "csv", "json", "png", "svg")),
    help="Only these forms; may be given several times. [default: all]",
)
def command(folders: tuple[Path, ...], out: Path | None, formats: tuple[str, ...]) -> None:
    """Write the report: one self-contained HTML page, Markdown, CSV tables, PNG and SVG plots."""
    from scalebench_api.problem import printable

    target = out or folders[0] / "report"
    written = write_report(open_all(folders), target, formats)
    for path in sorted(written, key=lambda path: (path.suffix != ".html", path.suffix != ".md", str(path))):
        if path.suffix in (".html", ".md") or len(written) < 8:
            click.echo(printable(str(path)))
    click.echo(printable(f"{len(written)} files in {target}"))


def write_report(bundles: Sequence[Bundle], target: Path, formats: Sequence[str] = ()) -> list[Path]:
    """Write it, in all forms when none is named; a folder that cannot be written ends the verb."""
    from scalebench.report import FORMATS, report

    # It warns of a home without a cache and of fonts it looks through: neither changes a plot.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        return report(bundles, target, tuple(formats) or FORMATS)
    except OSError as error:
        fail(f"{error.filename or target}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
