"""Throughput at worker counts that were not measured, with intervals calibrated on published curves; or a refusal.

The mixture of ``laws.normal_form`` gives the distribution; its interval is widened by the factor that made the same
intervals hold on published curves (``laws.pooled_prior``). What those curves cannot vouch for is refused: fewer than
three counts, several nodes where one was measured, farther than the calibration goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalecurve.render.table import Column, Table, columns_of
from scalecurve_models.fitting.least_squares import Array
from scalecurve_models.laws.normal_form import CurvePoint, Mixture, predict_mixture
from scalecurve_models.laws.pooled_prior import PooledPrior, pooled_prior

PREDICTED, RANGE, REFUSED = "predicted", "range", "refused"
INSIDE_NODE, OVER_NODES, FIRST_BOUNDARY = "inside a node", "over nodes", "first several nodes"
KINDS = (INSIDE_NODE, f"{INSIDE_NODE}, bent", OVER_NODES, f"{OVER_NODES}, bent", FIRST_BOUNDARY)
LEAST_COUNTS = 3
BENT = 0.8
FULL_NODE = 8  # accelerators of an ordinary server; a count up to it is taken to be one more on the same node
LEVEL = 0.95
WIDEST = 1.5  # a prediction that is open by more, either way, decides little: its range is given without a middle


@dataclass(frozen=True)
class Extrapolation:
    """Throughput in samples/s at ``workers``; without one, for ``reason``, it is a range or refused.

    No probability that follows from it is larger than ``certainty``.
    """

    workers: int
    status: str
    model: str = ""
    throughput: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    mixture: Mixture | None = None
    widening: float = 1.0
    certainty: float = 0.0

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Draw samples/s from the predicted distribution, widened as its interval is."""
        assert self.mixture is not None
        which = rng.choice(len(self.mixture.weights), count, p=self.mixture.weights)
        seconds = self.mixture.means[which] + self.mixture.sds[which] * rng.standard_normal(count)
        middle = self.mixture.quantile(0.5)
        rates: Array = (
            self.workers / middle * np.exp(-self.widening * np.log(np.maximum(seconds, middle / 50) / middle))
        )
        return rates


def extrapolate(
    points: Sequence[CurvePoint],
    workers: int,
    *,
    nodes: int | None = None,
    workers_per_node: int | None = None,
    prior: PooledPrior | None = None,
) -> Extrapolation:
    """Predict the throughput of a curve at ``workers``, or say why it is refused.

    ``points`` may repeat a count (its mean rate is used) and be in any order. ``nodes`` of the new count follows from
    the fullest measured node, or from ``workers_per_node``, unless stated.
    """
    prior = prior or pooled_prior()
    curve = merged(points)
    counts = [point.workers for point in curve]
    if len(counts) < LEAST_COUNTS:
        known = ", ".join(map(str, counts))
        return _refusal(workers, f"needs at least {LEAST_COUNTS} measured worker counts, got {len(counts)} ({known})")
    if workers < counts[0]:
        return _refusal(
            workers,
            f"fewer than the smallest measured count, {counts[0]:,}; published curves test counts between and beyond",
        )
    assumed = nodes is None and workers_per_node is None and max(point.nodes or 1 for point in curve) == 1
    curve, nodes = fill_nodes(curve, workers, nodes, workers_per_node)
    kind = kind_of(curve, nodes)
    mixture = predict_mixture(curve, workers, nodes, prior.normal_form)
    ratio = max(workers / counts[-1], 1.0)
    calibration = prior.calibration(kind, ratio)
    widening = None if calibration is None else calibration.factor
    if widening is None and kind != FIRST_BOUNDARY:
        far = f"{round(ratio, 1):,g} times the largest measured count, {counts[-1]:,}"
        tested = prior.farthest(kind)
        limit = f"published curves test up to {tested:g} times" if tested else "too few published curves test any"
        return _refusal(workers, f"{far}; {limit} ({kind})")
    throughput, low, high = widen_interval(mixture, workers, 1.0 if widening is None else widening)
    if kind != FIRST_BOUNDARY and is_too_wide(throughput, low, high):
        share = f"{100 * (low / throughput - 1):+.0f} to {100 * (high / throughput - 1):+.0f} %"
        reason = f"the points leave {share} open: measure a count that is nearer to {workers:,}"
        return Extrapolation(workers, RANGE, "range, not a prediction", None, low, high, reason, mixture)
    if kind == FIRST_BOUNDARY:
        reason = (
            f"{workers:,} workers on {nodes} nodes, but only one node was measured, so that nothing tells what the "
            "network costs: measure two nodes"
        )
        if assumed:
            reason += f" ({FULL_NODE} workers per node are assumed: state nodes in the points, or workers per node)"
        if widening is None:
            return _refusal(workers, reason)
        model = "range over published networks, not a prediction"
        return Extrapolation(workers, RANGE, model, None, low, high, reason, mixture, widening)
    assert calibration is not None
    return Extrapolation(
        workers=workers,
        status=PREDICTED,
        model=f"normal forms, {kind}; most weight: {mixture.leading}",
        throughput=throughput,
        low=low,
        high=high,
        mixture=mixture,
        widening=calibration.factor,
        certainty=calibration.certainty,
    )


def widen_interval(mixture: Mixture, workers: int, widening: float) -> tuple[float, float, float]:
    """Return median, low and high samples/s at ``workers``.

    The logarithms of the ends are ``widening`` times as far away.
    """
    middle, slow, fast = (mixture.quantile(share) for share in (0.5, 0.5 + LEVEL / 2, 0.5 - LEVEL / 2))
    low, high = (workers / middle * math.exp(-widening * math.log(end / middle)) for end in (slow, fast))
    return workers / middle, low, high


def is_too_wide(throughput: float, low: float, high: float) -> bool:
    """Return whether an interval leaves more open than a prediction may."""
    return max(high / throughput, throughput / low) > WIDEST


def merged(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """Merge points into one for each worker count, ascending: the mean of seconds per sample; nodes where stated."""
    out = []
    for workers in sorted({point.workers for point in points}):
        same = [point for point in points if point.workers == workers]
        rate = 1 / float(np.mean([1 / point.throughput for point in same]))
        nodes = [point.nodes for point in same if point.nodes is not None]
        out.append(CurvePoint(workers, rate, max(nodes, default=None)))
    return tuple(out)


def kind_of(curve: Sequence[CurvePoint], nodes: int | None) -> str:
    """Tell what a prediction on ``nodes`` extends: points of one node, of several, or the first over a boundary.

    Curves that have bent (efficiency below ``BENT`` at the largest count) are kinds of their own: they are harder to
    continue.
    """
    if max(point.nodes or 1 for point in curve) > 1:
        kind = OVER_NODES
    else:
        kind = FIRST_BOUNDARY if (nodes or 1) > 1 else INSIDE_NODE
    first, last = (curve[at].throughput / curve[at].workers for at in (0, -1))
    return f"{kind}, bent" if kind != FIRST_BOUNDARY and last / first < BENT else kind


def fill_nodes(
    curve: tuple[CurvePoint, ...], workers: int, nodes: int | None, per_node: int | None
) -> tuple[tuple[CurvePoint, ...], int]:
    """Fill in the nodes of the curve and of the new count.

    They are as stated, else by the fullest node, else by nodes of ``FULL_NODE``.
    How many workers the only measured node could hold is not known: up to ``FULL_NODE`` the same node is assumed.
    """
    stated = [point.workers / point.nodes for point in curve if point.nodes]
    full = per_node or (math.ceil(max(stated)) if stated else FULL_NODE)
    if not per_node and all((point.nodes or 1) == 1 for point in curve):
        full = max(full, FULL_NODE)
    known = tuple(replace(point, nodes=point.nodes or -(-point.workers // full)) for point in curve)
    return known, nodes or -(-workers // full)


def _refusal(workers: int, reason: str) -> Extrapolation:
    return Extrapolation(workers, REFUSED, reason=reason)


def extrapolation_table(rows: Sequence[tuple[str, Extrapolation]], name: str) -> Table:
    """Tabulate each (series, extrapolation) in a row, throughput in samples/s."""
    columns = (
        Column("series", "Series", keep=True),
        Column("workers", "Workers", "count"),
        *columns_of("number", throughput="Throughput", low="95 % low", high="95 % high"),
        *columns_of("text", model="Model", status="Status", reason="Reason"),
    )
    cells = [
        (series, at.workers, at.throughput, at.low, at.high, at.model or None, at.status, at.reason or None)
        for series, at in rows
    ]
    notes = (
        "A count is predicted without its own points. Intervals are 95 % for a new run, by how far such predictions of "
        "published curves were off.",
    )
    return Table(name, "Predicted throughput", columns, tuple(cells), notes)
