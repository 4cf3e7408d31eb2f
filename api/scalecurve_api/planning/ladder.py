"""Batches that are raised until memory is full: where their ladder ends.

Pure, for both engines and the analysis. A ladder is the points that differ only in the batch per worker; it ends at
the smallest of them that ran out of memory. What was dropped stays dropped, as a later result only lowers the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalecurve_api.spec.trial import Point, TrialPhase

_ENDED_WELL = (TrialPhase.succeeded, TrialPhase.invalid)


def ends_of(full: Iterable[Point]) -> dict[str, int]:
    """Ladder -> its first batch that ran out of memory, of the points that did."""
    ends: dict[str, int] = {}
    for point in full:
        if (ladder := point.ladder) is not None and point.rung is not None:
            ends[ladder] = min(point.rung, ends.get(ladder, point.rung))
    return ends


def beyond(points: Sequence[Point], full: Iterable[Point]) -> frozenset[str]:
    """Names of the points that are not run (any more): the batches from the end of their ladder on."""
    ends = ends_of(full)
    if not ends:
        return frozenset()
    at = ((point, point.ladder) for point in points)
    return frozenset(p.name for p, ladder in at if ladder in ends and p.rung is not None and p.rung >= ends[ladder])


@dataclass(frozen=True, slots=True)
class LargestFit:
    """The largest batch per worker of a ladder that fit, and the smallest that did not; None for none."""

    point: Point
    fits: int | None
    full: int | None


def largest_fits(outcomes: Iterable[tuple[Point, TrialPhase | None]]) -> list[LargestFit]:
    """Of every ladder, in the order of its first outcome; a batch fits if a run ended well and none ran out of memory.

    An Invalid run ended well: what it did not prove is something else.
    """
    ladders: dict[str, list[tuple[Point, TrialPhase | None]]] = {}
    for point, phase in outcomes:
        if (ladder := point.ladder) is not None:
            ladders.setdefault(ladder, []).append((point, phase))
    results = []
    for trials in ladders.values():
        full = [batch for p, phase in trials if phase is TrialPhase.full and (batch := p.batch_per_worker)]
        end = min(full, default=None)
        ran = [batch for p, phase in trials if phase in _ENDED_WELL and (batch := p.batch_per_worker)]
        fits = max((batch for batch in ran if end is None or batch < end), default=None)
        results.append(LargestFit(trials[0][0], fits, end))
    return results
