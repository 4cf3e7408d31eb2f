"""``scalecurve compare BEFORE AFTER``."""

import sys
from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.exit_codes import EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, show


@click.command("compare")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--threshold",
    type=Real(0, 10),
    default=0.0,
    show_default=True,
    help="Fraction of throughput, such as 0.05: exit 1 if a point changed by more than that, beyond noise.",
)
@output_option
def command(before: Path, after: Path, threshold: float, output: str) -> None:
    """Show which points changed beyond noise; exit code 1 if one exceeds the threshold.

    Two bundles without a common point are bad input (exit code 2).
    """
    from scalecurve.checks.compare import compare

    first, second = open_all([before, after])
    comparison = compare(first, second, threshold)
    show([comparison.table()], output, {"pastThreshold": comparison.past_threshold})
    if not comparison.points:
        fail(f"{before} and {after} have no measured point in common: nothing to compare", EXIT_INPUT)
    sys.exit(EXIT_FAILED if comparison.past_threshold else 0)
