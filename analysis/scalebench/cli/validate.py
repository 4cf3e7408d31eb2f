"""``scalebench validate FILE...``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from scalebench.cli import EXIT_INPUT
from scalebench.cli.output import output_option, read_text


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option
def command(files: tuple[Path, ...], output: str) -> None:
    """Check experiments; print every error with file, line, field, what was given and what is allowed."""
    from scalebench.cli.output import show
    from scalebench.table import Column, Table
    from scalebench_api.problem import shorten
    from scalebench_api.validate import validate_text

    results = [(file, validate_text(read_text(file), str(file))) for file in files]
    problems = [problem for _, validated in results for problem in validated.problems]
    if output == "table":
        for problem in problems:
            click.echo(str(problem))
        for file, validated in results:
            if not validated.problems:
                names = ", ".join(experiment.metadata.name for experiment in validated.experiments)
                click.echo(f"{file}: ok ({names})")
    else:
        names = ("file", "line", "field", "given", "allowed", "suggestion")
        columns = tuple(Column(name, name, "count" if name == "line" else "text") for name in names)
        rows = [asdict(problem) | {"given": shorten(problem.given)} for problem in problems]
        table = Table("problems", "Problems", columns, tuple(tuple(row[name] for name in names) for row in rows))
        show([table], output, {"valid": not problems})
    sys.exit(EXIT_INPUT if problems else 0)
