"""``scalecurve watch EXPERIMENT``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from scalecurve.cli.cluster import cluster_errors, cluster_options
from scalecurve.cli.output import Real, as_text, complain
from scalecurve_kube.address import ClusterAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from scalecurve.cluster.experiments import Watched


@click.command("watch")
@click.argument("name", metavar="EXPERIMENT")
@click.option(
    "--every", type=Real(min=0.1, max=3600), default=2.0, show_default=True, help="Polling interval in seconds."
)
@cluster_options
def command(name: str, every: float, address: ClusterAddress) -> None:
    """Follow an experiment in a cluster until it ends: a live table on a terminal, otherwise one line per change.

    Exit code 1 if it failed or a trial did not succeed.
    """
    from scalecurve.cluster.experiments import find
    from scalecurve.cluster.status import headline_table
    from scalecurve.cluster.watch import watch

    with cluster_errors():
        cluster, watched = find(address, name)
        with _display() as show:
            ended = watch(cluster, watched, show, _say_once(), every=every)
    headlines = headline_table(ended)
    if headlines.rows:
        click.echo(as_text(headlines), nl=False)
    click.echo(ended.headline)
    sys.exit(ended.exit_code)


@contextmanager
def _display() -> Iterator[Callable[[Watched], None]]:
    if not sys.stdout.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        yield lambda watched: live.update(_picture(watched), refresh=True)


def _lines() -> Callable[[Watched], None]:
    from scalecurve.cluster.watch import change_line

    last = ""

    def show(watched: Watched) -> None:
        nonlocal last
        if not watched.ended and (line := change_line(watched)) != last:
            last = line
            click.echo(line)
            sys.stdout.flush()

    return show


def _say_once() -> Callable[[str], None]:
    """One line per reason when the cluster stops answering."""
    reported: set[str] = set()

    def say(why: str) -> None:
        if why not in reported:
            reported.add(why)
            complain(f"{why}; retrying, Ctrl-C stops")

    return say


def _picture(watched: Watched) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from scalecurve.cluster.status import condition_table, current_table, headline_table

    total, done = int(watched.status.get("total") or 0), int(watched.status.get("done") or 0)
    shown: list[RenderableType] = [Text(watched.headline), ProgressBar(total=max(1, total), completed=done, width=40)]
    for table in (current_table(watched), headline_table(watched)):
        if table.rows:
            shown += [Text(""), Text(table.text().rstrip())]
    for kind, status, reason, message, _ in condition_table(watched).rows:
        if status == "Unknown" or (status == "True") == (kind == "Stalled"):  # which is bad when it is true
            shown.append(Text(f"{kind}={status} {reason}: {message}"))
    return Group(*shown)
