"""``scalecurve validate FILE...``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import FORMS, complain, device_memory_gb, overlay_option, show
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalecurve.checks.validation import Checked


@click.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@overlay_option
@click.option(
    "-o",
    "--output",
    type=click.Choice([*FORMS, "yaml"]),
    default="table",
    show_default=True,
    help="Output format; yaml prints the experiments with overlays merged, ready for kubectl.",
)
@click.option("--device", help="Refuse what cannot fit this device's memory, such as H200.")
def command(files: tuple[Path, ...], overlays: tuple[Path, ...], output: str, device: str | None) -> None:
    """Check experiment files; print every error with file, line, field, value and allowed values."""
    from scalecurve.checks.validation import problem_table, validate

    checked = validate(files, overlays, device_memory_gb(device))
    valid = not any(result.problems for result in checked)
    warnings = [str(warning) for result in checked for warning in result.warnings]
    if output in FORMS and output != "table":
        show([problem_table(checked)], output, {"valid": valid, "warnings": warnings})
    elif output == "table":
        _say(checked)
    elif valid:
        click.echo("---\n".join(result.text.rstrip("\n") + "\n" for result in checked), nl=False)
    else:
        # kubectl at the other end of a pipe gets a whole and right text, or none.
        for problem in (problem for result in checked for problem in result.problems):
            click.echo(str(problem), err=True)
    for warning in warnings:
        complain(warning)
    sys.exit(0 if valid else EXIT_INPUT)


def _say(checked: Sequence[Checked]) -> None:
    for result in checked:
        for problem in result.problems:
            click.echo(str(problem))
        if not result.problems:
            names = ", ".join(experiment.metadata.name for experiment in result.experiments)
            click.echo(printable(f"{result.file}: ok ({names})"))
