"""``scalecurve corpus list|show|add``, and ``scalecurve compare MINE --with CORPUS``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import doubts, open_all
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, output_option, show
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from scalecurve_corpus.schema import Corpus

SHIPPED = "corpus"
file_option = click.option(
    "--corpus", "name", metavar="FILE", default=SHIPPED, help="A corpus of your own.  [default: the one that ships]"
)


@click.group("corpus")
def command() -> None:
    """Show published results to compare with, and make a corpus of your own."""


@command.command("list")
@file_option
@output_option
def list_(name: str, output: str) -> None:
    """List the sources of a corpus, with their licenses."""
    from scalecurve_corpus.tables import sources_table

    show([sources_table(corpus_named(name))], output)


@command.command("show")
@file_option
@click.option("--model", metavar="NAME", help="Only points of this model, such as bert.")
@click.option("--device", metavar="NAME", help="Only points on this device, such as H100.")
@click.option("--workers", type=click.IntRange(1), help="Only points on so many devices.")
@click.option("--unsteady", is_flag=True, help="Only points with a run more than 3 % from their median.")
@output_option
def show_(name: str, model: str | None, device: str | None, workers: int | None, unsteady: bool, output: str) -> None:
    """Show published points, with their rates per device."""
    from scalecurve.hardware.names import folded, unknown
    from scalecurve_corpus.tables import points_table

    points = corpus_named(name).points
    for option, chosen, values in (
        ("--model", model, {point.benchmark for point in points}),
        ("--device", device, {point.device for point in points}),
    ):
        if chosen is not None and folded(chosen) not in map(folded, values):
            fail(f"{option}: {unknown(option.lstrip('-'), chosen, sorted(values))}", EXIT_INPUT)
    shown = [
        point
        for point in points
        if (model is None or folded(model) == folded(point.benchmark))
        and (device is None or folded(device) == folded(point.device))
        and workers in (None, point.workers)
        and (point.is_unsteady or not unsteady)
    ]
    if not shown:
        fail("no point meets these conditions together", EXIT_INPUT)
    show([points_table(sorted(shown, key=lambda p: (p.benchmark, p.device, p.workers, p.submitter)))], output)


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--submitter", metavar="NAME", help="Whose machines the bundles were measured on, such as our-cluster.")
@output_option
def add(file: Path, sources: tuple[Path, ...], submitter: str | None, output: str) -> None:
    """Add SOURCES to the corpus FILE, which is made if there is none: bundles, or other corpora."""
    from scalecurve_corpus.copies import joined
    from scalecurve_corpus.corpus_file import write_corpus
    from scalecurve_corpus.schema import CorpusError
    from scalecurve_corpus.tables import sources_table

    parts = [corpus_named(str(file))] if file.exists() else []
    parts += [_part(source, submitter) for source in sources]
    try:
        together, notes = joined(parts)
        write_corpus(together, file)
    except CorpusError as error:
        fail(printable(str(error)), EXIT_INPUT)
    show([sources_table(together)], output, {"corpus": str(file)}, notes)


@command.command("power")
@file_option
@click.option(
    "--repetitions",
    type=click.IntRange(2, 20),
    multiple=True,
    default=(2, 3, 5, 8),
    show_default=True,
    help="How many are planned. Repeatable.",
)
@output_option
def power(name: str, repetitions: tuple[int, ...], output: str) -> None:
    """Show how often an acceptance test refuses a good machine, and finds a slow one, before it is run.

    Counted on the published repetitions themselves, for `scalecurve gate --expect corpus:p25`.
    """
    from scalecurve_corpus.acceptance import error_rates
    from scalecurve_corpus.refused_systems import refused_systems
    from scalecurve_corpus.tables import power_table

    corpus = corpus_named(name)
    try:
        rates = [error_rates(count, corpus) for count in sorted(set(repetitions))]
    except ValueError as error:
        fail(f"--{error}", EXIT_INPUT)
    systems = (refused_systems(corpus, 0.25, count) for count in sorted(set(repetitions)))
    show([power_table(rates, [each for each in systems if each])], output)


def corpus_named(name: str) -> Corpus:
    """Open a corpus: ``corpus`` for the one that ships, else a file; one line and exit code 2 for what is none."""
    from scalecurve_corpus.corpus_file import load_shipped, read_corpus
    from scalecurve_corpus.schema import CorpusError

    try:
        return load_shipped() if name == SHIPPED else read_corpus(Path(name))
    except CorpusError as error:
        fail(printable(str(error)), EXIT_INPUT)


def compare_with(paths: Sequence[Path], name: str, model: str, include_unproved: bool, output: str) -> None:
    """Print where the points of bundles stand; those with too few systems beside them next to the nearest ones."""
    from scalecurve.bundle.measurement import measure
    from scalecurve.curves.compute import scaling
    from scalecurve_corpus.busbw import busbw_beside, read_published_busbw
    from scalecurve_corpus.comparable import own_points
    from scalecurve_corpus.standing import standings
    from scalecurve_corpus.tables import busbw_table, comparable_table, nearest_table, standing_table, utilization_table
    from scalecurve_corpus.utilization import utilization_standings

    corpus = corpus_named(name)
    bundles = open_all(paths)
    measured = [series for bundle in bundles for series in measure(bundle)]
    points = own_points(scaling(bundles), measured, model, include_unproved)
    of_links = busbw_beside(bundles, read_published_busbw())
    if of_links and not points:
        show([busbw_table(of_links)], output, None, doubts(bundles, include_unproved))
        return
    if not points:
        fail(f"{', '.join(map(str, paths))}: no point with a throughput counts", EXIT_INPUT)
    found = standings(points, corpus)
    links = [busbw_table(of_links)] if of_links else []
    of_size = utilization_standings(points, corpus)
    judged = [standing_table(found, corpus.sources), comparable_table(found)]
    tables = [*(judged if not all(standing.refused for standing in found) else []), nearest_table(found)]
    mfu = [utilization_table(of_size)] if of_size or output == "json" else []
    show([*tables, *mfu, *links], output, None, doubts(bundles, include_unproved))


def _part(source: Path, submitter: str | None) -> Corpus:
    from scalecurve_corpus.corpus_file import SUFFIX
    from scalecurve_corpus.from_bundle import corpus_of
    from scalecurve_corpus.schema import CorpusError

    if source.suffix == SUFFIX:
        return corpus_named(str(source))
    if submitter is None:
        fail(f"--submitter: missing; expected whose machines {source} was measured on", EXIT_INPUT)
    (bundle,) = open_all([source])
    times = [step.at_ns for trial in bundle.trials if trial.record for step in trial.record.timeline]
    day = datetime.fromtimestamp(max(times) / 1e9, UTC).date().isoformat() if times else "unknown"
    try:
        return corpus_of(bundle, submitter, day)
    except CorpusError as error:
        fail(printable(str(error)), EXIT_INPUT)
