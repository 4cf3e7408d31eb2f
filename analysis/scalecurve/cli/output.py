"""Input and output of verbs: files, numbers, tables in every format, errors on stderr with their exit code."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import ScalingExperiment

F = TypeVar("F", bound="Callable[..., Any]")

FORMS = ("table", "json", "csv", "md")


class Real(click.FloatRange):
    """A number in a range; not ``nan`` and not ``inf``, which pass every comparison or none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


def output_option(function: F) -> F:
    """``--output table|json|csv|md``."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default="table", show_default=True, help="Output format."
    )(function)


def show(tables: Sequence[Table], form: str, extra: dict[str, Any] | None = None) -> None:
    """Print tables: as text, as Markdown, all in one JSON document, or only the first as CSV.

    No program reads CSV with a second header, so the other tables are named on stderr.
    """
    from scalecurve.render.table import to_json

    if form == "json":
        document = {**(extra or {}), **{table.name: table.plain() for table in tables}}
        click.echo(to_json(document), nl=False)
    elif form == "csv":
        click.echo(tables[0].csv(), nl=False)
        if left_out := ", ".join(table.name for table in tables[1:] if table.rows):
            click.echo(
                f"scalecurve: CSV holds one table, {tables[0].name}; --output json also has: {left_out}", err=True
            )
    else:
        click.echo("\n".join(table.markdown() if form == "md" else table.text() for table in tables), nl=False)


def fail(message: str, code: int) -> NoReturn:
    """Print one line on stderr and exit with ``code``."""
    complain(message)
    sys.exit(code)


def complain(message: str) -> None:
    """Print one line on stderr; control characters, as in a path, are escaped."""
    click.echo(f"scalecurve: {printable(message)}", err=True)


@contextmanager
def progress_bar(
    description: str, quiet: bool = False, in_bytes: bool = False
) -> Iterator[Callable[[int, int], None] | None]:
    """A callback for (done, total) that draws a bar on stderr; None if stderr is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def overlay_option(function: F) -> F:
    """``--overlay FILE``, repeatable: merge patches for the experiment."""
    return click.option(
        "--overlay",
        "overlays",
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="A JSON merge patch in YAML, applied to the experiment: mappings are merged, null removes a field, "
        "anything else is replaced. Repeatable; applied in order.",
    )(function)


def load_experiment(file: Path, overlays: Sequence[Path] = ()) -> tuple[ScalingExperiment, str]:
    """The one experiment of a file with overlays, and its text; prints all problems and exits if it is invalid."""
    from scalecurve.checks.validation import validate

    checked = validate([file], overlays)
    problems = [problem for result in checked for problem in result.problems]
    for problem in problems:
        click.echo(str(problem), err=True)
    if problems:
        sys.exit(EXIT_INPUT)
    if len(checked[0].experiments) != 1:
        fail(f"{file}: holds {len(checked[0].experiments)} experiments; expected one", EXIT_INPUT)
    return checked[0].experiments[0], checked[0].text
