"""``scalecurve training BUNDLE...``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import bundles_argument, open_all
from scalecurve.cli.output import output_option, show


@click.command("training")
@bundles_argument
@output_option
def command(folders: tuple[Path, ...], output: str) -> None:
    """Show the results of training to accuracy: accuracy, time to target, data, noise scale, quantization."""
    from scalecurve.training_results import training
    from scalecurve.training_results.tables import accuracy_table

    results = training(open_all(folders))
    show(list(results.tables()) or [accuracy_table(results.points)], output)
