"""``scalecurve report BUNDLE|EXPERIMENT...``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import (
    bundles_or_experiments_argument,
    include_unproved_option,
    label_option,
    open_all,
)
from scalecurve.cli.cluster import cluster_options
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, say
from scalecurve.cli.price import PriceOverride, price_options
from scalecurve.cli.pull import default_folder, fetch
from scalecurve_api.problem import printable
from scalecurve_api.text import count
from scalecurve_kube.address import ClusterAddress

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.curves.stated import StatedCurve
    from scalecurve.reporting.findings import PredictionTarget


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
@click.option(
    "--published",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="CSV file of curves that others published, to show beside the measured ones. Repeatable.",
)
@click.option("--device", help="Predict for this device beside the measurement: a shipped name, or a .yaml file.")
@click.option("--link", help="A shipped link, a .yaml file, or a rate such as 25gbps. Requires --device.")
@click.option("--network", help="A network other than the workload's model: a shipped name. Requires --device.")
@click.option("--x", metavar="AXIS", help="Axis of the first figure, as in matrix.  [default: workers, or what varies]")
@label_option
@price_options
@include_unproved_option
def command(
    arguments: tuple[Path, ...],
    address: ClusterAddress,
    into: Path | None,
    out: Path | None,
    formats: tuple[str, ...],
    published: tuple[Path, ...],
    device: str | None,
    link: str | None,
    network: str | None,
    x: str | None,
    labels: tuple[str, ...],
    price: PriceOverride,
    include_unproved: bool,
) -> None:
    """Write the report: one self-contained HTML page, Markdown, CSV tables, PNG and SVG plots.

    Existing paths are bundles; anything else is an experiment whose records are pulled from the cluster first. With
    --device, Paleo's throughput, run time and cost stand beside the measured ones, with their errors.
    """
    from scalecurve.curves.compute import scaling
    from scalecurve.curves.missing import missing_curves

    predict_for = _target(device, link, network)
    curves = _read_published(published)
    folders = _pull_bundles(arguments, address, into)
    first = folders[0]  # the report goes into its folder, or beside its packed file
    target = out or (first.with_name(f"{first.stem}-report") if first.is_file() else first / "report")
    bundles = price.priced(open_all(folders, labels))
    written = write_report(bundles, target, formats, price, curves, include_unproved, predict_for, x or "")
    for path in sorted(written, key=lambda path: (path.suffix != ".html", path.suffix != ".md", str(path))):
        if path.suffix in (".html", ".md") or len(written) < 8:
            click.echo(printable(str(path)))
    click.echo(printable(f"{count(len(written), 'file')} in {target}"))
    for missing in missing_curves(bundles, scaling(bundles), paths=True):
        say(f"warning: {missing}", err=True)


def _pull_bundles(arguments: Sequence[Path], address: ClusterAddress, into: Path | None) -> list[Path]:
    from scalecurve.cluster.experiments import split

    _, names = split(arguments)
    if into is not None and len(names) != 1:
        fail(f"--into takes one experiment in a cluster, got {len(names)}", EXIT_INPUT)
    bundles = {name: into or default_folder(name) for name in names}
    for name, bundle in bundles.items():
        fetch(name, bundle, address)
    return [bundles.get(str(path), path) for path in arguments]


def _target(device: str | None, link: str | None, network: str | None) -> PredictionTarget | None:
    """What to predict for; a device or link that is not known ends the verb before a bundle is read."""
    if device is None:
        if link or network:
            fail("--link and --network require --device", EXIT_INPUT)
        return None
    from scalecurve.hardware.devices import HardwareError, find_device, find_link
    from scalecurve.reporting.findings import PredictionTarget

    try:
        find_device(device)
        if link:
            find_link(link)
    except HardwareError as error:
        fail(" ".join(str(error).split()), EXIT_INPUT)
    return PredictionTarget(device, link or "", network or "")


def _read_published(files: Sequence[Path]) -> list[StatedCurve]:
    from scalecurve.curves.stated import read_stated
    from scalecurve_api.registry import RegistryError

    try:
        return [curve for file in files for curve in read_stated(file)]
    except ValueError as error:
        fail(f"--published {error}", EXIT_INPUT)
    except RegistryError as error:
        fail(f"--published: {error}", EXIT_ENVIRONMENT)


def write_report(
    bundles: Sequence[Bundle],
    target: Path,
    formats: Sequence[str] = (),
    price: PriceOverride | None = None,
    published: Sequence[StatedCurve] = (),
    include_unproved: bool = False,
    target_platform: PredictionTarget | None = None,
    x: str = "",
) -> list[Path]:
    """Write the report, in all formats by default; a folder that cannot be written ends the verb."""
    price = price or PriceOverride()
    from scalecurve.reporting import FORMATS, report

    # It warns about missing cache folders and fonts, which change no plot.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        formats = tuple(formats) or FORMATS
        notes = price.notes(bundles)
        return report(bundles, target, formats, price.cost, notes, published, include_unproved, target_platform, x)
    except ValueError as error:
        fail(f"--{error}", EXIT_INPUT)
    except OSError as error:
        fail(f"{error.filename or target}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
