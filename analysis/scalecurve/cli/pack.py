"""``scalecurve pack BUNDLE`` and ``scalecurve unpack FILE``."""

from pathlib import Path

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, output_option, progress_bar, quiet_option, show
from scalecurve_api.problem import printable


@click.command("pack")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Output file.  [default: <BUNDLE>.zip]")
@output_option
@quiet_option
def pack(bundle: Path, out: Path | None, output: str, quiet: bool) -> None:
    """Pack the records of a BUNDLE into one file: a zip with the sha256 of every file in it.

    Every verb that reads a bundle opens it. Reports are not included; `scalecurve report FILE` rewrites them.
    The same bundle always gives the same file.
    """
    from scalecurve.bundle.pack import pack
    from scalecurve.render.table import Column, table_of

    named = bundle if bundle.name.strip(".") else bundle.resolve()
    try:
        with progress_bar("packing", quiet, in_bytes=True) as progress:
            packed = pack(bundle, out or named.with_name(f"{named.name}.zip"), progress)
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    table = table_of(
        "packed",
        "Packed bundle",
        [packed],
        (
            (Column("file", "File"), lambda packed: str(packed.path)),
            (Column("records", "Records", "count"), lambda packed: packed.records),
            (Column("files", "Files", "count"), lambda packed: packed.files),
            (Column("unpackedBytes", "Unpacked", "count", "B"), lambda packed: packed.unpacked_bytes),
            (Column("packedBytes", "Packed", "count", "B"), lambda packed: packed.packed_bytes),
            (Column("sha256", "sha256"), lambda packed: packed.sha256),
        ),
    )
    show([table], output)


@click.command("unpack")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: FILE without its suffix]")
@quiet_option
def unpack(file: Path, out: Path | None, quiet: bool) -> None:
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
