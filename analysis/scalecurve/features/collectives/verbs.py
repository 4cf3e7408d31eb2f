"""``scalecurve allreduce`` and ``scalecurve collectives``, and their tables after a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.after_run import AfterRun
from scalecurve.cli.bundles import bundles_argument, doubts, open_all
from scalecurve.cli.output import output_option, show_or_end
from scalecurve.cli.verbs import Verb

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.render.table import Table

VERBS = {
    "allreduce": Verb(
        "scalecurve.features.collectives.verbs:allreduce",
        "Show the all-reduce benchmark: latency, algbw, busbw.",
        after="diagnose",
    ),
    "collectives": Verb(
        "scalecurve.features.collectives.verbs:collectives",
        "Show the benchmark of collectives, with intervals.",
        after="diagnose",
    ),
}


class Bandwidths(AfterRun):
    """The benchmarks' tables."""

    def results(self, bundle: Bundle) -> Sequence[Table]:
        from scalecurve.features.collectives.allreduce import allreduce
        from scalecurve.features.collectives.collectives import collectives

        return [table for table in (allreduce([bundle]).table(), collectives([bundle]).table()) if table.rows]


BANDWIDTHS = Bandwidths()


@click.command("allreduce")
@bundles_argument
@output_option
def allreduce(folders: tuple[Path, ...], output: str) -> None:
    """Show the all-reduce microbenchmark by message size: latency, algbw and busbw with their range."""
    from scalecurve.features.collectives.allreduce import allreduce

    bundles = open_all(folders)
    table = allreduce(bundles).table()
    show_or_end([table], output, doubts(bundles, included=True))


@click.command("collectives")
@bundles_argument
@output_option
def collectives(folders: tuple[Path, ...], output: str) -> None:
    """Show the microbenchmark of collectives by message size: time, algbw and busbw with 95 % intervals."""
    from scalecurve.features.collectives.collectives import collectives

    bundles = open_all(folders)
    table = collectives(bundles).table()
    show_or_end([table], output, doubts(bundles, included=True))
