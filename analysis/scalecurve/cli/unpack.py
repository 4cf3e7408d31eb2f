"""``scalecurve unpack FILE``."""

from pathlib import Path

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, progress_bar
from scalecurve_api.problem import printable


@click.command("unpack")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: FILE without its suffix]")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
def command(file: Path, out: Path | None, quiet: bool) -> None:
    """Unpack a packed bundle into a new folder, for example to continue it with `scalecurve run --resume`.

    Every file is verified; if one is damaged, no folder is written.
    """
    from scalecurve.bundle.pack import unpack

    try:
        with progress_bar("unpacking", quiet, in_bytes=True) as progress:
            folder = unpack(file, out or file.with_suffix(""), progress)
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    click.echo(printable(str(folder)))
