"""Batches that are raised until memory is full: their order, and where the ladder ends.

Pure, for both engines and the analysis. A ladder is the points that differ only in the batch per worker; it ends at
the smallest of them that ran out of memory. What was dropped stays dropped, as a later result only lowers the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalecurve_api.model import canonical_json
from scalecurve_api.spec.experiment import LADDER_AXIS
from scalecurve_api.spec.trial import Point, TrialPhase

_ENDED_WELL = (TrialPhase.succeeded, TrialPhase.invalid)


def ladder_of(point: Point) -> str | None:
    """Key of the ladder that a point is on, if it is on one."""
    if point.rung is None:
        return None
    others = {name: value for name, value in point.axes.items() if name != LADDER_AXIS}
    return canonical_json([point.mode.value, point.workers, point.layout, others])


def by_rung(order: Sequence[int], points: Sequence[Point]) -> list[int]:
    """The order of points, by their index, with each ladder's batches rising over the places it has."""
    places: dict[str, list[int]] = {}
    for place, index in enumerate(order):
        if (ladder := ladder_of(points[index])) is not None:
            places.setdefault(ladder, []).append(place)
    rising = list(order)
    for taken in places.values():
        indices = sorted((order[place] for place in taken), key=lambda index: points[index].rung or 0)
        for place, index in zip(taken, indices, strict=True):
            rising[place] = index
    return rising


def ends_of(full: Iterable[Point]) -> dict[str, int]:
    """Ladder -> its first batch that ran out of memory, of the points that did."""
    ends: dict[str, int] = {}
    for point in full:
        if (ladder := ladder_of(point)) is not None and point.rung is not None:
            ends[ladder] = min(point.rung, ends.get(ladder, point.rung))
    return ends


def beyond(points: Sequence[Point], full: Iterable[Point]) -> frozenset[str]:
    """Names of the points that are not run (any more): the batches from the end of their ladder on."""
    ends = ends_of(full)
    if not ends:
        return frozenset()
    at = ((point, ladder_of(point)) for point in points)
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
        if (ladder := ladder_of(point)) is not None:
            ladders.setdefault(ladder, []).append((point, phase))
    results = []
    for trials in ladders.values():
        full = [batch for p, phase in trials if phase is TrialPhase.full and (batch := p.batch_per_worker)]
        end = min(full, default=None)
        ran = [batch for p, phase in trials if phase in _ENDED_WELL and (batch := p.batch_per_worker)]
        fits = max((batch for batch in ran if end is None or batch < end), default=None)
        results.append(LargestFit(trials[0][0], fits, end))
    return results
