"""``scalebench validate FILE...``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scalebench.cli import EXIT_INPUT
from scalebench.cli.output import output_option, show


@click.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option
def command(files: tuple[Path, ...], output: str) -> None:
    """Check experiments; print every error with file, line, field, what was given and what is allowed."""
    from scalebench.validation import problem_table, validate
    from scalebench_api.problem import printable

    checked = validate(files)
    valid = not any(each.problems for each in checked)
    if output == "table":
        for each in checked:
            for problem in each.problems:
                click.echo(str(problem))
            if not each.problems:
                names = ", ".join(experiment.metadata.name for experiment in each.experiments)
                click.echo(printable(f"{each.file}: ok ({names})"))
    else:
        show([problem_table(checked)], output, {"valid": valid})
    sys.exit(0 if valid else EXIT_INPUT)
