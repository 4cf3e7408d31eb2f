"""``scalecurve import PUBLISHER PATH... --into FILE.corpus``: what a publisher's repositories hold, as one corpus."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, show
from scalecurve_api.problem import printable
from scalecurve_api.text import count

if TYPE_CHECKING:
    from scalecurve.corpus.schema import Corpus, Imported

MLPERF, LLM_FOUNDRY, TORCHTITAN = "mlperf", "llm-foundry", "torchtitan-benchmarks"
PUBLISHERS = (MLPERF, LLM_FOUNDRY, TORCHTITAN)
"""What may stand before the paths, and as `--format`."""
Progress = Callable[[int], None]


def published(sources: Sequence[Path], form: str | None) -> tuple[str, Sequence[Path]]:
    """Find whose results the sources are.

    Args:
        sources: As typed; the first may name a publisher.
        form: The format that was stated, if any.

    Returns:
        The publisher and the paths; empty if the sources are of another format.
    """
    first = str(sources[0])
    if form is None and first in PUBLISHERS and not sources[0].exists():
        return first, sources[1:] or fail(f"{first}: expected the path of its repository after it", EXIT_INPUT)
    if form in PUBLISHERS:
        return form, sources
    if form is None and sources[0].is_dir():
        from scalecurve.corpus.results_repository import is_results_repository

        return (MLPERF, sources) if is_results_repository(sources[0]) else ("", ())
    return "", ()


def import_corpus(
    publisher: str, paths: Sequence[Path], into: Path, name: str | None, dry_run: bool, output: str
) -> None:
    """Read what a publisher's repositories hold and write one corpus.

    Args:
        publisher: One of ``PUBLISHERS``.
        paths: Checkouts, bare git repositories, or (of MLPerf) archives and (of the others) pages.
        into: The file to write; it must not exist.
        name: Name of the source, in place of its own; for one path only.
        dry_run: Write nothing.
        output: Format of what is printed.
    """
    from scalecurve.corpus.copies import joined
    from scalecurve.corpus.corpus_file import write_corpus
    from scalecurve.corpus.schema import CorpusError
    from scalecurve.corpus.tables import points_table

    if name and len(paths) > 1:
        fail(f"--name {name}: expected one path, got {len(paths)}", EXIT_INPUT)
    if not dry_run and (into.exists() or into.is_symlink()):
        fail(f"{into}: exists; choose another --into", EXIT_INPUT)
    try:
        with _progress() as progress:
            imports = [_read(publisher, path, name, progress) for path in paths]
        corpus, copies = joined(each.corpus for each in imports)
        if not dry_run:
            write_corpus(corpus, into)
    except CorpusError as error:
        fail(" ".join(str(error).split()), EXIT_INPUT)
    notes = [*_refused(corpus), *(note for each in imports for note in each.notes), *copies]
    about = {
        "corpus": None if dry_run else str(into),
        "sources": [vars(source) for source in corpus.sources],
        "runs": sum(each.runs for each in imports),
        "notes": notes,
    }
    show([points_table(corpus.points)], output, about)
    if output == "table":
        sources = [f"{each.name}: {each.url}, {each.retrieved}, license {each.license}" for each in corpus.sources]
        done = "dry run: nothing was written" if dry_run else f"corpus: {into}"
        click.echo("\n".join(map(printable, ["", *notes, *sources, done])))


def _read(publisher: str, path: Path, name: str | None, progress: Progress | None) -> Imported:
    from scalecurve.corpus.llm_foundry import import_llm_foundry
    from scalecurve.corpus.mlperf_points import import_results
    from scalecurve.corpus.torchtitan_tables import import_torchtitan

    if publisher == MLPERF:
        return import_results(path, name, progress)
    return (import_llm_foundry if publisher == LLM_FOUNDRY else import_torchtitan)(path, name or publisher)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show the number of logs that were read on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading logs") as status:
        yield lambda count: status.update(f"reading logs: {count}")


def _refused(corpus: Corpus) -> list[str]:
    """A line for each reason why a unit is not proved, with the number of points."""
    reasons = Counter(point.reason for point in corpus.points if point.unit is None)
    if not reasons:
        return []
    proved = len(corpus.points) - reasons.total()
    first = f"{proved} of {len(corpus.points)} points have a proved unit; the others have no throughput"
    return [first, *(f"{count(number, 'point')}: {reason}" for reason, number in reasons.most_common())]
