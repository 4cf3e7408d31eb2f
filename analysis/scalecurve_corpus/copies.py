"""Points that are the same runs under another name, of one round or of two: kept once, with the other names."""

from collections.abc import Iterable
from dataclasses import replace

from scalecurve_corpus.schema import Corpus, CorpusError, PublishedPoint, PublishedSource


def without_copies(points: Iterable[PublishedPoint]) -> tuple[list[PublishedPoint], list[str]]:
    """Drop points that have the same runs as an earlier one, which gets their names.

    Args:
        points: Points in order; the first of equal ones is kept.

    Returns:
        The points that are left, and a line for each that was dropped.
    """
    first: dict[tuple[object, ...], int] = {}
    unique: list[PublishedPoint] = []
    notes = []
    for point in points:
        at = first.setdefault(_identity(point), len(unique))
        if at == len(unique):
            unique.append(point)
            continue
        kept = unique[at]
        name = f"{point.submitter}/{point.system}"
        name = name if point.source == kept.source else f"{point.source}:{name}"
        unique[at] = replace(kept, aliases=(*kept.aliases, name, *point.aliases))
        notes.append(f"{name}, {point.benchmark}: the same runs as {kept.submitter}/{kept.system}; kept once")
    return unique, notes


def joined(corpora: Iterable[Corpus]) -> tuple[Corpus, list[str]]:
    """Combine corpora; sources of one name and points of the same runs are kept once.

    Args:
        corpora: Corpora of different sources.

    Returns:
        A corpus with the sources and points of all in their order, and a line for each point that was dropped.

    Raises:
        CorpusError: two different sources have one name.
    """
    sources: dict[str, PublishedSource] = {}
    points: list[PublishedPoint] = []
    for corpus in corpora:
        for source in corpus.sources:
            if sources.setdefault(source.name, source) != source:
                raise CorpusError(f"sources: name: two different sources are called {source.name!r}; rename one")
        points += corpus.points
    unique, notes = without_copies(points)
    return Corpus(tuple(sources.values()), tuple(unique)), notes


def _identity(point: PublishedPoint) -> tuple[object, ...]:
    """What two names of the same runs share: when each began, how long it took, and each step; else the name."""
    if any(run.started_at is None for run in point.runs):
        return (point.source, point.submitter, point.system, point.benchmark, point.workers, point.runs)
    return (point.benchmark, *((run.started_at, run.minutes, run.step_s) for run in point.runs))
