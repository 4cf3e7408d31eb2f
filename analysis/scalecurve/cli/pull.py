"""``scalecurve pull EXPERIMENT``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.cluster import cluster_errors, cluster_options
from scalecurve.cli.exit_codes import EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import complain, fail, progress_bar, quiet_option
from scalecurve_api.problem import printable
from scalecurve_kube.address import ClusterAddress

if TYPE_CHECKING:
    from scalecurve.cluster.pull import Pulled

_FEW = 8


@click.command("pull")
@click.argument("name", metavar="EXPERIMENT")
@click.option("--into", type=click.Path(path_type=Path), help="Folder of the bundle.  [default: results/<EXPERIMENT>]")
@cluster_options
@quiet_option
def command(name: str, into: Path | None, address: ClusterAddress, quiet: bool) -> None:
    """Fetch the records of an experiment in a cluster into a bundle; only missing ones if repeated.

    Running trials are skipped. Exit code 1 if a record could not be fetched.
    """
    pulled = fetch(name, into or default_folder(name), address, quiet)
    click.echo("report:  " + shlex.join(["scalecurve", "report", str(pulled.bundle)]))
    sys.exit(EXIT_FAILED if pulled.failed else 0)


def default_folder(name: str) -> Path:
    """The folder that ``run`` would use."""
    return Path("results") / name


def fetch(name: str, bundle: Path, address: ClusterAddress, quiet: bool = False) -> Pulled:
    """Pull with a progress bar and print what was fetched and what was not; an error ends the verb."""
    from scalecurve.cluster.experiments import find
    from scalecurve.cluster.pull import PullError, pull

    with cluster_errors():
        cluster, watched = find(address, name)
        try:
            with progress_bar("fetching", quiet) as progress:
                pulled = pull(cluster, watched, bundle, progress)
        except PullError as error:
            fail(str(error), EXIT_INPUT)
    click.echo(watched.headline)
    _say(pulled)
    return pulled


def _say(pulled: Pulled) -> None:
    click.echo(f"trials fetched: {len(pulled.fetched)}, already present: {len(pulled.present)}")
    for what, names in (
        ("still running (pull again once they end)", pulled.unfinished),
        ("cancelled before they ran, nothing recorded", pulled.unrecorded),
        ("truncated: larger than the cluster keeps; the record lists what is missing", sorted(pulled.left_out)),
    ):
        if names:
            more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
            click.echo(f"{what}: {', '.join(names[:_FEW])}{more}")
    if pulled.to_come:
        click.echo(f"not started yet: {pulled.to_come}")
    for trial in sorted(pulled.failed):
        complain(f"{trial}: not fetched: {pulled.failed[trial]}")
    click.echo(printable(f"records: {pulled.bundle}"))
