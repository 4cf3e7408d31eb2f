"""Input and output of verbs: files, numbers, tables in every format, errors on stderr with their exit code."""

from __future__ import annotations

import logging
import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalecurve.bundle.open import Bundle
    from scalecurve.render.table import Table
    from scalecurve.reporting.drawing import Drawing
    from scalecurve_api.spec.experiment import ScalingExperiment


F = TypeVar("F", bound="Callable[..., Any]")

_WARNINGS = "scalecurve.warnings"
FORMS = ("table", "json", "csv", "md")


class Real(click.FloatRange):
    """A number in a range; not ``nan`` and not ``inf``, which pass every comparison or none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


class Fraction(Real):
    """A fraction, also as a percentage: 0.005 or 0.5%."""

    name = "fraction"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = value.strip() if isinstance(value, str) else value
        if isinstance(text, str) and text.endswith("%"):
            try:
                text = float(text[:-1]) / 100
            except ValueError:
                self.fail(f"{value!r} is not a percentage, such as 0.5%", param, ctx)
        return super().convert(text, param, ctx)


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
output_option = click.option(
    "-o", "--output", type=click.Choice(FORMS), default="table", show_default=True, help="Output format."
)
plot_option = click.option(
    "--plot", "folder", metavar="FOLDER", type=click.Path(path_type=Path), help="Also draw it: a PNG and an SVG file."
)
overlay_option = click.option(
    "--overlay",
    "overlays",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A JSON merge patch in YAML, applied to the experiment: mappings are merged, null removes a field, "
    "anything else is replaced. Repeatable; applied in order.",
)


def options_as(name: str, make: Callable[..., Any], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Options that reach a verb's function as one argument ``name``: what ``make`` returns for their values."""

    def decorate(function: F) -> F:
        def verb(**values: Any) -> Any:
            own = {key: values.pop(key) for key in signature(make).parameters}
            return function(**{name: make(**own)}, **values)

        update_wrapper(verb, function)
        for option in reversed(options):
            verb = option(verb)
        return verb  # type: ignore[return-value]  # click calls it by keyword

    return decorate


def show(tables: Sequence[Table], form: str, extra: dict[str, Any] | None = None, warnings: Sequence[str] = ()) -> None:
    """Print tables: as text, as Markdown, all in one JSON document, or only the first as CSV.

    The document names its schema, the warnings of every bundle that was opened, and ``warnings``, which are the first
    lines of text (on stderr beside CSV). No program reads CSV with a second header, so the other tables are named on
    stderr.
    """
    from scalecurve.render.table import to_json

    if form == "json":
        context = click.get_current_context()
        head = {"schema": schema_of(context), "warnings": [*context.meta.get(_WARNINGS, ()), *warnings]}
        document = {**head, **(extra or {}), **{table.name: table.plain() for table in tables}}
        click.echo(to_json(document), nl=False)
        return
    for warning in warnings:
        say(f"warning: {warning}", err=form == "csv")
    if form == "csv":
        click.echo(tables[0].csv(), nl=False)
        if left_out := ", ".join(table.name for table in tables[1:] if table.rows):
            click.echo(
                f"scalecurve: CSV holds one table, {tables[0].name}; --output json also has: {left_out}", err=True
            )
    elif form == "md":
        click.echo("\n".join(table.markdown() for table in tables), nl=False)
    else:
        click.echo("\n".join(map(as_text, tables)), nl=False)


def save_plot(folder: Path | None, name: str, draw: Callable[[], Drawing], form: str) -> None:
    """Write a plot as PNG and SVG into the folder, which is made, and print where with its caption; or do nothing."""
    if folder is None:
        return
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from scalecurve.reporting.drawing.render import plot_settings, render

    with plot_settings():
        plot = render(name, draw(), png=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, data in (("png", plot.png or b""), ("svg", plot.svg.encode())):
            (folder / f"{name}.{suffix}").write_bytes(data)
    except OSError as error:
        fail(f"--plot {folder}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
    say(f"{folder / name}.png: {plot.title}. {plot.caption}", err=form != "table")


def show_or_end(tables: Sequence[Table], form: str, warnings: Sequence[str] = ()) -> None:
    """Show tables; where none has a row, exit with code 2, and with their notes and the warnings in one line."""
    filled = any(table.rows for table in tables)
    if filled or form in ("json", "csv"):
        show(tables, form, warnings=warnings)
    if not filled:
        why = f" ({'; '.join(warnings)})" if warnings else ""
        notes = " ".join(note for table in tables for note in table.notes) or "nothing to show"
        fail(f"{notes}{why}", EXIT_INPUT)


def as_text(table: Table) -> str:
    """As wide as the terminal; a file or another program gets every row on one line."""
    if not sys.stdout.isatty():
        return table.text()
    from scalecurve.render.terminal import fitted

    return fitted(table, shutil.get_terminal_size().columns)


def text_width() -> int:
    """Of paragraphs: the terminal's, within what is easy to read."""
    return max(40, min(100, shutil.get_terminal_size((100, 24)).columns))


def schema_of(context: click.Context) -> str:
    """``scalecurve.dev/VERB/v1``: the names in the JSON of this verb are those of this version."""
    words = context.command_path.split()
    return f"scalecurve.dev/{'-'.join(words[1:]) or 'scalecurve'}/v1"


def warn(bundles: Iterable[Bundle]) -> None:
    """Print what a reader must know before any number on stderr, and keep it for ``show``."""
    kept = click.get_current_context().meta.setdefault(_WARNINGS, [])
    for bundle in bundles:
        for warning in bundle.warnings:
            complain(f"{bundle.path}: {warning}")
            kept.append(f"{bundle.label}: {warning}")


def fail(message: str, code: int) -> NoReturn:
    """Print one line on stderr and exit with ``code``."""
    complain(message)
    sys.exit(code)


def complain(message: str) -> None:
    """Print a message on stderr."""
    say(f"scalecurve: {message}", err=True)


def say(message: str, err: bool = False) -> None:
    """Print a line of words, wrapped in a terminal; control characters, as in a path, are escaped."""
    line = printable(message)
    if (sys.stderr if err else sys.stdout).isatty():
        from scalecurve.render.terminal import paragraph

        line = "\n".join(paragraph(line, shutil.get_terminal_size().columns))
    click.echo(line, err=err)


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


def load_experiment(
    file: Path, overlays: Sequence[Path] = (), *, reads_data: bool = True
) -> tuple[ScalingExperiment, str]:
    """The one experiment of a file with overlays, and its text; prints all problems and exits if it is invalid.

    Unless it ``reads_data``, the place of the data may be missing.
    """
    from scalecurve.checks.validation import lacks_data, validate, well_formed

    checked = validate([file], overlays)
    found = [problem for result in checked for problem in result.problems]
    problems = [problem for problem in found if reads_data or not lacks_data(problem)]
    if found and not problems and (experiment := well_formed(file, overlays)):
        return experiment, checked[0].text
    for problem in problems:
        click.echo(str(problem), err=True)
    if problems:
        sys.exit(EXIT_INPUT)
    for warning in checked[0].warnings:
        complain(str(warning))
    if len(checked[0].experiments) != 1:
        fail(f"{file}: holds {len(checked[0].experiments)} experiments; expected one", EXIT_INPUT)
    return checked[0].experiments[0], checked[0].text


def device_memory_gb(name: str | None) -> float | None:
    """Memory of the named device in GB; None without a name.

    Raises:
        click.BadParameter: the device is unknown.
    """
    if name is None:
        return None
    from scalecurve.hardware.devices import HardwareError
    from scalecurve.planning.memory import device_gb

    try:
        return device_gb(name)
    except HardwareError as error:
        raise click.BadParameter(str(error), param_hint="--device") from error
