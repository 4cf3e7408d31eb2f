"""``scalecurve training BUNDLE...`` (entry point ``scalecurve.commands``)."""

from __future__ import annotations

from pathlib import Path

import click

from scalecurve.cli.bundles import bundles_argument, doubts, open_all
from scalecurve.cli.output import output_option, show_or_end
from scalecurve.cli.verbs import Verb

VERBS = {
    "training": Verb(
        "scalecurve.features.accuracy.verbs:training",
        "Show accuracy, time to target, noise scale, quantization.",
        after="diagnose",
    )
}


@click.command("training")
@bundles_argument
@output_option
def training(folders: tuple[Path, ...], output: str) -> None:
    """Show the results of training to accuracy: accuracy, time to target, data, noise scale, quantization."""
    from scalecurve.features.accuracy.results import training
    from scalecurve.features.accuracy.results.tables import accuracy_table

    bundles = open_all(folders)
    results = training(bundles)
    tables = list(results.tables()) or [accuracy_table(results.points)]
    show_or_end(tables, output, doubts(bundles, included=True))
