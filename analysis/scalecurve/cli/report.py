"""``scalecurve report BUNDLE|EXPERIMENT...``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import bundles_or_experiments_argument, open_all
from scalecurve.cli.cluster_options import cluster_options
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail
from scalecurve.cli.price import PriceOverride, price_options
from scalecurve.cli.pull import default_folder, fetch
from scalecurve_api.problem import printable
from scalecurve_kube.address import ClusterAddress

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle


@click.command("report")
@bundles_or_experiments_argument
@cluster_options
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="Bundle to pull an experiment in a cluster into.  [default: results/<EXPERIMENT>]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: <BUNDLE>/report]")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(("html", "md", "csv", "json", "png", "svg")),
    help="Formats to write; repeatable.  [default: all]",
)
@price_options
def command(
    arguments: tuple[Path, ...],
    address: ClusterAddress,
    into: Path | None,
    out: Path | None,
    formats: tuple[str, ...],
    price: PriceOverride,
) -> None:
    """Write the report: one self-contained HTML page, Markdown, CSV tables, PNG and SVG plots.

    Existing paths are bundles; anything else is an experiment whose records are pulled from the cluster first.
    """
    folders = _pulled(arguments, address, into)
    target = out or _default_out(Path(folders[0]))
    written = write_report(open_all(folders), target, formats, price)
    for path in sorted(written, key=lambda path: (path.suffix != ".html", path.suffix != ".md", str(path))):
        if path.suffix in (".html", ".md") or len(written) < 8:
            click.echo(printable(str(path)))
    click.echo(printable(f"{len(written)} files in {target}"))


def _default_out(bundle: Path) -> Path:
    """In the bundle's folder, or beside its packed file."""
    return bundle.with_name(f"{bundle.stem}-report") if bundle.is_file() else bundle / "report"


def _pulled(arguments: Sequence[Path], address: ClusterAddress, into: Path | None) -> list[Path]:
    """The bundles, after pulling those of experiments in the cluster."""
    from scalecurve.cluster.experiments import split

    _, names = split(arguments)
    if into is not None and len(names) != 1:
        fail(f"--into takes one experiment in a cluster, got {len(names)}", EXIT_INPUT)
    bundles = {name: into or default_folder(name) for name in names}
    for name, bundle in bundles.items():
        fetch(name, bundle, address)
    return [bundles.get(str(path), path) for path in arguments]


def write_report(
    bundles: Sequence[Bundle], target: Path, formats: Sequence[str] = (), price: PriceOverride | None = None
) -> list[Path]:
    """Write the report, in all formats by default; a folder that cannot be written ends the verb."""
    price = price or PriceOverride()
    from scalecurve.reporting import FORMATS, report

    # It warns about missing cache folders and fonts, which change no plot.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        return report(bundles, target, tuple(formats) or FORMATS, price.cost, price.notes(bundles))
    except OSError as error:
        fail(f"{error.filename or target}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
