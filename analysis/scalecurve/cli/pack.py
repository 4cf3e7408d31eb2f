"""``scalecurve pack BUNDLE``."""

from pathlib import Path

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, output_option, progress_bar, show


@click.command("pack")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Output file.  [default: <BUNDLE>.zip]")
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
def command(bundle: Path, out: Path | None, output: str, quiet: bool) -> None:
    """Pack the records of a BUNDLE into one file: a zip with the sha256 of every file in it.

    Every verb that reads a bundle opens it. Reports are not included; `scalecurve report FILE` rewrites them.
    The same bundle always gives the same file.
    """
    from scalecurve.bundle.pack import pack
    from scalecurve.render.table import Column, Table

    named = bundle if bundle.name.strip(".") else bundle.resolve()
    try:
        with progress_bar("packing", quiet, in_bytes=True) as progress:
            packed = pack(bundle, out or named.with_name(f"{named.name}.zip"), progress)
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    columns = (
        Column("file", "File"),
        Column("records", "Records", "count"),
        Column("files", "Files", "count"),
        Column("unpackedBytes", "Unpacked", "count", "B"),
        Column("packedBytes", "Packed", "count", "B"),
        Column("sha256", "sha256"),
    )
    row = (
        *(str(packed.path), packed.records, packed.files),
        *(packed.unpacked_bytes, packed.packed_bytes, packed.sha256),
    )
    show([Table("packed", "Packed bundle", columns, (row,))], output)
