"""Which worker count to measure next, for the most information on another count per worker-hour.

Every candidate is measured in thought: its throughput is drawn at the quantiles of its own prediction, the goal is
predicted anew with that point, and the widths of its interval are compared. Information is the mean logarithm of the
ratio of widths, in nats; the cost of a candidate is its workers for as long as any other takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalecurve.render.table import Column, Table, columns_of
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.laws.extrapolation import LEVEL, fill_nodes, merged
from scalecurve_models.laws.normal_form import CurvePoint, Mixture, predict_mixture
from scalecurve_models.laws.pooled_prior import PooledPrior, pooled_prior

MINUTES = 10
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class NextPoint:
    """A count that could be measured: half-width of the goal's interval (a share) now and expected after it."""

    workers: int
    nodes: int
    goal: int
    width: float
    expected: float
    information: float
    worker_hours: float

    @property
    def per_worker_hour(self) -> float:
        return self.information / self.worker_hours


def next_points(
    points: Sequence[CurvePoint],
    goal: int,
    candidates: Sequence[int] = (),
    *,
    workers_per_node: int | None = None,
    prior: PooledPrior | None = None,
) -> tuple[NextPoint, ...]:
    """Candidates by information per worker-hour, the best first; by default powers of two up to the goal.

    Raises FitError without a measured count, or without a candidate that was not measured.
    """
    curve = merged(points)
    if not curve:
        raise FitError("next: no measured count to start from")
    known = {point.workers for point in curve}
    powers = [2**power for power in range(goal.bit_length()) if 2**power < goal]
    further = [n for n in dict.fromkeys(candidates or [*powers, goal]) if n not in known]
    if not further:
        raise FitError("next: every candidate is measured; repetitions narrow a point and not what lies beyond it")
    normal_form = (prior or pooled_prior()).normal_form

    def mixture(points: tuple[CurvePoint, ...], workers: int) -> Mixture:
        placed, nodes = fill_nodes(points, workers, None, workers_per_node)
        return predict_mixture(placed, workers, nodes, normal_form)

    now = _half_width(mixture(curve, goal))
    out = []
    for workers in further:
        at = mixture(curve, workers)
        _, nodes = fill_nodes(curve, workers, None, workers_per_node)
        supposed = [CurvePoint(workers, workers / at.quantile(share), None) for share in _QUANTILES]
        widths = [_half_width(mixture(_add_point(curve, each, nodes), goal)) for each in supposed]
        gained = sum(math.log(now / width) for width in widths) / len(widths)
        hours = workers * MINUTES / 60
        out.append(NextPoint(workers, nodes, goal, now, now * math.exp(-gained), gained, hours))
    return tuple(sorted(out, key=lambda each: -each.per_worker_hour))


def next_table(
    rows: Sequence[tuple[str, NextPoint]], per_worker_hour: float | None = None, currency: str | None = None
) -> Table:
    """One row for each (series, candidate), in the order given."""
    columns = (
        Column("series", "Series", keep=True),
        Column("goal", "To predict", "count"),
        *columns_of("count", workers="Measure", nodes="Nodes"),
        *columns_of("percent", width="Half-width now", expected="Expected after"),
        Column("information", "Information (nats)", "number"),
        Column("worker_hours", f"Worker-hours ({MINUTES} min)", "number"),
        Column("per_worker_hour", "Nats per worker-hour", "number"),
        Column("cost", "Cost", "number", currency or ""),
    )
    cells = [
        (
            *(series, at.goal, at.workers, at.nodes, at.width, at.expected, at.information, at.worker_hours),
            *(at.per_worker_hour, None if per_worker_hour is None else at.worker_hours * per_worker_hour),
        )
        for series, at in rows
    ]
    notes = (
        "The first row of a series gives the most information per worker-hour. Half-widths are before calibration, "
        "which multiplies them all.",
    )
    return Table("next", "What to measure next", columns, tuple(cells), notes)


def _add_point(curve: tuple[CurvePoint, ...], point: CurvePoint, nodes: int) -> tuple[CurvePoint, ...]:
    stated = any(each.nodes is not None for each in curve)
    placed = replace(point, nodes=nodes) if stated else point
    return tuple(sorted((*curve, placed), key=lambda each: each.workers))


def _half_width(mixture: Mixture) -> float:
    low, high = (mixture.quantile(share) for share in (0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return math.log(high / low) / 2
