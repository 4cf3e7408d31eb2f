"""How verbs print: tables in the form asked for, errors on stderr with their exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from scalebench.cli import EXIT_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalebench.table import Table
    from scalebench_api.experiment import ScalingExperiment

F = TypeVar("F", bound="Callable[..., Any]")

FORMS = ("table", "json", "csv", "md")


def output_option(function: F) -> F:
    """``--output table|json|csv|md``."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default="table", show_default=True, help="Form of what is printed."
    )(function)


def show(tables: Sequence[Table], form: str, extra: dict[str, Any] | None = None) -> None:
    """Print tables: text, Markdown, CSV (one after another, an empty line between), or one JSON document."""
    from scalebench.table import to_json

    if form == "json":
        document = {**(extra or {}), **{table.name: table.plain() for table in tables}}
        click.echo(to_json(document), nl=False)
        return
    write = {"table": lambda t: t.text(), "md": lambda t: t.markdown(), "csv": lambda t: t.csv()}[form]
    click.echo("\n".join(write(table) for table in tables), nl=False)


def fail(message: str, code: int) -> NoReturn:
    """One line on stderr, and the exit code that belongs to it."""
    click.echo(f"scalebench: {message}", err=True)
    sys.exit(code)


def read_text(file: Path) -> str:
    """A file's text, or a clear end."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", EXIT_INPUT)
    except UnicodeDecodeError:
        fail(f"{file}: is not UTF-8 text; an experiment is a YAML file", EXIT_INPUT)


def load_experiment(file: Path) -> tuple[ScalingExperiment, str]:
    """The one experiment of a file and the file's text; all its problems are printed when it is not right."""
    from scalebench_api.validate import validate_text

    text = read_text(file)
    validated = validate_text(text, str(file))
    for problem in validated.problems:
        click.echo(str(problem), err=True)
    if validated.problems:
        sys.exit(EXIT_INPUT)
    if len(validated.experiments) != 1:
        fail(f"{file}: holds {len(validated.experiments)} experiments; this verb takes one", EXIT_INPUT)
    return validated.experiments[0], text
