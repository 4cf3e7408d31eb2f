"""The smallest regression that a gate can see, before anything is run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable
from scalecurve.render.table import Column, Table, table_of
from scalecurve.statistics.comparison import (
    BY_PRIOR,
    DEFAULT_THRESHOLD,
    FAR,
    SpreadUsed,
    across,
    detectable,
    stated,
)
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import throughput
from scalecurve.statistics.spread import Point, Spread
from scalecurve.statistics.spread import sessions_of as sessions_in
from scalecurve_timelines.catalog import contents
from scalecurve_timelines.timeline import earlier_spread, repetitions_since, sessions_of, timeline

LEVEL = 0.95


@dataclass(frozen=True)
class Foreseen:
    """Of a point: the loss that about three of four gates of a further session find, and that which fails at once."""

    against: str
    series: str
    workers: int
    reference: Estimate
    smallest: float | None
    at_once: float | None
    decided_by: str


def foreseen(
    baseline: Bundle | None = None,
    history: Sequence[str | os.PathLike[str]] = (),
    threshold: float = DEFAULT_THRESHOLD,
    *,
    session_sd: float | None = None,
    catalog: Path | None = None,
    include_unproved: bool = False,
) -> Table:
    """Say what ``gate`` will be able to see of one further session with as many repetitions.

    Args:
        baseline: The bundle that it will be held against.
        history: Folders of earlier bundles that it will be held against.
        threshold: Smallest loss that fails, as a fraction of throughput.
        session_sd: Spread between sessions, stated as a fraction of throughput.
        catalog: File that keeps what was read of `history` for the next call; None keeps nothing.
        include_unproved: Also use points that do not count.

    Returns:
        A row for each point.

    Raises:
        BundleError: for a folder without a bundle.
        ValueError: `session_sd` is no fraction.
    """
    given = stated(session_sd)
    rows: list[Foreseen] = []
    if baseline is not None:
        points = {
            (series.name, p.point.workers): (p.samples, given)
            for series in measure(believable(baseline, include_unproved))
            for p in series.points
            if p.timed
        }
        rows += _foreseen("baseline", points, threshold)
    if history:
        found, _ = sessions_of(contents(history, catalog), include_unproved)
        for name, sessions in sorted(found.items()):
            past = timeline(name, sessions, "throughput")
            known = {
                (curve.series, curve.workers): (repetitions_since(past, curve), given or earlier_spread(curve))
                for curve in past.curves
            }
            rows += _foreseen(f"history of {name}", known, threshold)
    return table_of(
        "foreseen",
        "Smallest regression that the gate sees, one further session with as many repetitions",
        rows,
        (
            (Column("against", "Against"), lambda row: row.against),
            (Column("series", "Series"), lambda row: row.series),
            (Column("workers", "Workers", "count"), lambda row: row.workers),
            (Column("reference", "Throughput", "number", "/s", interval=True), lambda row: row.reference),
            (Column("smallest", "Smallest regression", "percent"), lambda row: row.smallest),
            (Column("at_once", "Failed at once from", "percent"), lambda row: row.at_once),
            (Column("decided_by", "Decided by"), lambda row: row.decided_by),
        ),
        (
            "Found in about 3 of 4 gates, all points together; of equal bundles 2.5 % at most fail, or fail once.",
            "Below *failed at once* a point fails once, and a fresh session has to be slower, too.",
        ),
    )


def _foreseen(
    against: str, points: Mapping[tuple[str, int], tuple[Point, Spread | None]], threshold: float
) -> Iterator[Foreseen]:
    by = {key: _decision(*point) for key, point in points.items()}
    decided = sum(each.spread is not None for each in by.values())
    for (series, workers), (point, _) in points.items():
        one = by[series, workers]
        smallest = _loss(one, 1 - (1 - LEVEL) / decided if decided else LEVEL)
        far = _loss(one, 1 - FAR / decided) if one.basis in BY_PRIOR else smallest
        smallest = None if smallest is None else max(smallest, threshold)
        yield Foreseen(against, series, workers, throughput(point), smallest, far, one.named)


def _decision(point: Point, elsewhere: Spread | None) -> SpreadUsed:
    sessions = len(sessions_in(point))
    return across(elsewhere, [point], 1 + 1 / sessions, (1 + sessions) / len(point), LEVEL)


def _loss(by: SpreadUsed, level: float) -> float | None:
    """The share of throughput that is lost: a factor of 1.25 between both is a loss of 20 %."""
    factor = None if by.spread is None else detectable(by.spread, level)
    return None if factor is None else -math.expm1(-math.log1p(factor))
