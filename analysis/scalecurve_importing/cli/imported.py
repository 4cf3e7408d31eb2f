"""``scalecurve import SOURCE... --into BUNDLE``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, output_option, show
from scalecurve_api.features.collectives.facts import ALLREDUCE, COLLECTIVES
from scalecurve_api.problem import printable
from scalecurve_api.text import count
from scalecurve_importing.importer import IMPORTERS

if TYPE_CHECKING:
    from scalecurve.render.table import Table
    from scalecurve_importing.columns import Statements
    from scalecurve_importing.compose import Composed


@click.command("import")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), required=True, help="New bundle to write.")
@click.option(
    "--format", "form", type=click.Choice(IMPORTERS.names()), help="Format of the sources.  [default: detected]"
)
@click.option("--name", help="Name of the experiment.  [default: the bundle's]")
@click.option(
    "--set",
    "facts",
    metavar="FIELD=VALUE",
    multiple=True,
    help="What the sources do not state, such as workers=4, device=T4 or mode=weak; several values separated by "
    "commas are of one source each. Repeatable.",
)
@click.option(
    "--column", "columns", metavar="FIELD=COLUMN", multiple=True, help="Which column holds a field. Repeatable."
)
@click.option(
    "--unit",
    "units",
    metavar="COLUMN=UNIT",
    multiple=True,
    help="Unit of a column whose name does not state it, such as step_time=ms. Repeatable.",
)
@click.option("--factor", "factors", metavar="COLUMN", multiple=True, help="Further column that makes a curve.")
@click.option("--ignore", "ignored", metavar="COLUMN", multiple=True, help="Column to ignore. Repeatable.")
@click.option(
    "--pattern",
    metavar="REGEX|TOOL",
    help="Read a log's lines by a regular expression with named groups, as workload.log.pattern: step, step_time, "
    "step_time_ms, steps_per_second, throughput, throughput_per_worker, loss, global_batch; or by the name of a tool.",
)
@click.option(
    "--patterns", type=click.Path(path_type=Path), metavar="FILE", help="Further tools for --pattern, in TOML."
)
@click.option("--ok", metavar="REGEX", help="With --pattern: what a line must hold before any number counts.")
@click.option(
    "--workers-from",
    metavar="REGEX",
    help="State fields by the name of each source: named groups are fields, such as run_(?P<workers>[0-9]+).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported; write nothing.")
@output_option
def command(
    sources: tuple[Path, ...],
    into: Path,
    form: str | None,
    name: str | None,
    facts: tuple[str, ...],
    columns: tuple[str, ...],
    units: tuple[str, ...],
    factors: tuple[str, ...],
    ignored: tuple[str, ...],
    pattern: str | None,
    patterns: Path | None,
    ok: str | None,
    workers_from: str | None,
    dry_run: bool,
    output: str,
) -> None:
    """Make a bundle of numbers that were measured elsewhere, which every verb takes and marks as imported.

    SOURCES are tables (CSV, JSON) of worker counts with throughput, step time, run time or speed-up, or files of other
    tools. Nothing is guessed: a unit or a worker count that no source states is asked for.
    """
    from scalecurve.curves.doubts import NOT_CHECKED
    from scalecurve_importing.columns import Statements
    from scalecurve_importing.import_bundle import import_bundle
    from scalecurve_importing.reading import SourceError

    stated = [_pairs(facts, "--set", at, len(sources)) for at in range(len(sources))]
    named, measured = _pairs(columns, "--column"), _pairs(units, "--unit")
    if ok is not None and pattern is None:
        fail("--ok: without --pattern, which it belongs to", EXIT_INPUT)
    statements = [
        Statements(
            each, named, measured, frozenset(factors), frozenset(ignored), pattern=pattern, ok=ok, patterns=patterns
        )
        for each in (_add_name_facts(each, source, workers_from) for each, source in zip(stated, sources, strict=True))
    ]
    try:
        shown = _first_matches(sources, statements) if pattern and dry_run else []
        composed = import_bundle(sources, into, name=name, file_format=form, statements=statements, dry_run=dry_run)
    except SourceError as error:
        fail(" ".join(str(error).split()), EXIT_INPUT)
    used = [f"{source}: {name}" for source, name in composed.formats.items()]
    first = [NOT_CHECKED, *composed.notes]
    show(
        [_table(composed)],
        output,
        {"bundle": None if dry_run else str(into), "formats": composed.formats, "units": composed.units},
        first,
    )
    if output == "table":
        done = "dry run: nothing was written" if dry_run else f"records: {into}"
        click.echo("\n".join(map(printable, ["", *shown, *used, *(f"column {unit}" for unit in composed.units), done])))


def _first_matches(sources: Sequence[Path], statements: Sequence[Statements]) -> list[str]:
    from scalecurve_importing.pattern_log import first_matches

    pairs = zip(sources, statements, strict=True)
    return [f"{source.name}, {line}" for source, each in pairs for line in first_matches(source, each)]


def _add_name_facts(facts: dict[str, str], source: Path, expression: str | None) -> dict[str, str]:
    """The statements, with those of the source's name; ends the call where the name states none or another."""
    from scalecurve_importing.columns import FIELDS
    from scalecurve_importing.reading import SourceError
    from scalecurve_importing.stated import agreed

    if expression is None:
        return facts
    try:
        compiled = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        fail(f"--workers-from: got {expression!r}, expected a regular expression: {error}", EXIT_INPUT)
    if not compiled.groupindex or (unknown := sorted(compiled.groupindex.keys() - {*FIELDS})):
        what = f"{unknown[0]!r} is no field" if compiled.groupindex else "no named group"
        fail(f"--workers-from: {what}; groups are fields ({', '.join(FIELDS)})", EXIT_INPUT)
    if (match := compiled.search(source.name)) is None:
        fail(f"--workers-from: the name {source.name!r} does not match {expression!r}", EXIT_INPUT)
    try:
        return agreed(facts, {name: text for name, text in match.groupdict().items() if text}, source.name)
    except SourceError as error:
        fail(str(error), EXIT_INPUT)


def _pairs(texts: Sequence[str], option: str, at: int = 0, sources: int = 1) -> dict[str, str]:
    """``NAME=VALUE`` options as a mapping; of several values the one of source ``at``."""
    from scalecurve_api.text import did_you_mean
    from scalecurve_importing.columns import FIELDS

    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or not value.strip():
            fail(f"{option} {text!r}: expected NAME=VALUE", EXIT_INPUT)
        if option != "--unit" and name not in FIELDS:
            near = did_you_mean(name, FIELDS)
            hint = f"; did you mean {near}?" if near else ""
            fail(f"{option} {name!r}: unknown field{hint} (fields: {', '.join(FIELDS)})", EXIT_INPUT)
        values = [part.strip() for part in value.split(",")] if option == "--set" and sources > 1 else [value.strip()]
        if len(values) not in (1, sources):
            fail(
                f"{option} {name}: {count(len(values), 'value')} for {count(sources, 'source')}; give one, or one each",
                EXIT_INPUT,
            )
        pairs[name] = values[at] if len(values) > 1 else values[0]
    return pairs


def _table(composed: Composed) -> Table:
    from scalecurve.render.table import Column, table_of

    return table_of(
        "imported",
        f"Imported as {composed.experiment.metadata.name}",
        composed.records,
        (
            (Column("series", "Series"), lambda record: record.trial.point.series),
            (Column("workers", "Workers", "count"), lambda record: record.trial.point.workers),
            (Column("layout", "Layout"), lambda record: record.trial.point.layout),
            (Column("batch", "Batch", "count"), lambda record: record.trial.point.global_batch),
            (Column("throughput", "Throughput", "number"), lambda record: record.throughput or None),
            (
                Column("unit", "Per second"),
                lambda record: record.summary.sample_unit if record.summary and record.throughput else None,
            ),
            (
                Column("sizes", "Message sizes", "count"),
                lambda record: len(ALLREDUCE.of(record)) + len(COLLECTIVES.of(record)) or None,
            ),
            (Column("source", "Source"), lambda record: record.source),
            (Column("note", "Note"), lambda record: record.message or None),
        ),
    )
