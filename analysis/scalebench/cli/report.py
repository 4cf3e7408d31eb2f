"""``scalebench report BUNDLE...``."""

from __future__ import annotations

from pathlib import Path

import click

from scalebench.cli import EXIT_ENVIRONMENT
from scalebench.cli.bundles import bundles_argument, open_all
from scalebench.cli.output import fail


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
    from scalebench.report import FORMATS, report

    target = out or folders[0] / "report"
    try:
        written = report(open_all(folders), target, formats or FORMATS)
    except OSError as error:
        fail(f"{error.filename or target}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
    for path in sorted(written, key=lambda path: (path.suffix != ".html", path.suffix != ".md", str(path))):
        if path.suffix in (".html", ".md") or len(written) < 8:
            click.echo(path)
    click.echo(f"{len(written)} files in {target}")
