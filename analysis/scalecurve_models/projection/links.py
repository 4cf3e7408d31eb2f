"""Seconds of an exchange: by collectives measured over the same ranks, or by the ring over links of two levels.

Over several nodes the exchange is hierarchical: within each node at its link's rate, and between nodes each worker's
share at the rate of the link between them. An all-gather, a reduce-scatter, a broadcast and an all-to-all of the same
vector send half of what an all-reduce sends (P. Patarasuk, X. Yuan, JPDC 69 (2009)), and take that where they were not
measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scalecurve.bundle.open import Bundle
from scalecurve.features.collectives.allreduce import allreduce
from scalecurve.features.collectives.collectives import OWN, collectives
from scalecurve.hardware.devices import Link
from scalecurve_api.record.step_program import Exchange
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count
from scalecurve_models.collectives.collective_fit import CollectiveFit, TimedAllReduce, cross_validate_collective
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost
from scalecurve_models.fitting.least_squares import FitError

RING = ALGORITHMS["ring"]
ALL_REDUCE = "all-reduce"


class MeasuredPlace(NamedTuple):
    """What was measured: a kind of exchange, over so many ranks on so many nodes."""

    kind: str
    ranks: int
    nodes: int


@dataclass(frozen=True)
class WorkerLinks:
    """What workers are connected by; ``measured`` has fits of what was timed, in the form of the ring's all-reduce."""

    measured: Mapping[MeasuredPlace, CollectiveFit] = field(default_factory=dict)
    within: LinkCost | None = None
    between: LinkCost | None = None

    def seconds(self, exchange: Exchange) -> float:
        """Of one exchange. Raises FitError where no measurement and no link covers its ranks."""
        if exchange.ranks == 1 or not exchange.bytes:
            return 0.0
        return self._seconds(MeasuredPlace(exchange.kind, exchange.ranks, exchange.nodes), float(exchange.bytes))

    def assumptions(self, exchanges: Sequence[Exchange]) -> list[str]:
        """Where each time comes from, in a line for each kind and set of ranks."""
        places = sorted({MeasuredPlace(each.kind, each.ranks, each.nodes) for each in exchanges if each.ranks > 1})
        return [self._source(place) for place in places]

    def _seconds(self, place: MeasuredPlace, size: float) -> float:
        kind, ranks, nodes = place
        fit = self.measured.get(place)
        if fit is None and nodes == 1 and (nearest := self._nearest(kind)) is not None:
            fit = self.measured[nearest]
        if fit is not None:
            return fit.seconds(RankGroup(ranks, nodes), size)
        if kind != ALL_REDUCE:
            return self._seconds(MeasuredPlace(ALL_REDUCE, ranks, nodes), size) / 2
        if nodes == 1:
            return cost(RING, RankGroup(ranks), size, _require_link(self.within, ranks, nodes))
        between = _require_link(self.between, ranks, nodes)
        if ranks == nodes:
            return cost(RING, RankGroup(ranks, nodes), size, between)
        per_node = ranks // nodes
        # Reduce-scatter and all-gather within the node cost together what an all-reduce there does.
        inside = self._seconds(MeasuredPlace(ALL_REDUCE, per_node, 1), size)
        return inside + cost(RING, RankGroup(nodes, nodes), size / per_node, between)

    def _nearest(self, kind: str) -> MeasuredPlace | None:
        """The most ranks of one node over which this kind was measured."""
        places = [place for place in self.measured if place.kind == kind and place.nodes == 1]
        return max(places, key=lambda place: place.ranks, default=None)

    def _source(self, place: MeasuredPlace) -> str:
        kind, ranks, nodes = place
        who = f"{kind} of {count(ranks, 'worker')}" + (f" on {count(nodes, 'node')}" if nodes > 1 else "")
        if place in self.measured:
            return f"{who}: α and β fitted to measurements of the same ranks"
        if nodes == 1 and (nearest := self._nearest(kind)) is not None:
            return f"{who}: extrapolated by the ring from {count(nearest.ranks, 'worker')}"
        if kind != ALL_REDUCE:
            return f"{who}: half of an all-reduce of the same vector, as it was not measured"
        if nodes == 1:
            return f"{who}: the ring by the link, without latency"
        outside = "between nodes each worker's share at the rate of --node-link, without latency or contention"
        return f"{who}: {outside}"


def links_of(bundles: Sequence[Bundle], link: Link | None, node_link: Link | None) -> WorkerLinks:
    """Fits of every collective that these bundles timed, and the links given for the rest."""
    timed: dict[MeasuredPlace, list[TimedAllReduce]] = {}
    for point in allreduce(bundles).points:
        for size in point.sizes:
            if size.messages == 1 and not size.errors:
                _add(timed, ALL_REDUCE, point.point, size.bytes, size.time_us.median)
    for result in collectives(bundles).results:
        line = result.line
        if line.messages == 1 and not result.errors and line.tool == OWN:
            _add(timed, line.collective.value, result.point, line.bytes, result.time_us.value)
    fits = {place: cross_validate_collective(RING, points).fit for place, points in timed.items()}
    return WorkerLinks(fits, _cost(link), _cost(node_link))


def _add(timed: dict[MeasuredPlace, list[TimedAllReduce]], kind: str, point: Point, size: int, time_us: float) -> None:
    if point.workers > 1:
        group = RankGroup(point.workers, point.nodes)
        measured = TimedAllReduce(group, size, time_us * 1e-6)
        timed.setdefault(MeasuredPlace(kind, point.workers, point.nodes), []).append(measured)


def _cost(link: Link | None) -> LinkCost | None:
    return None if link is None else LinkCost(0.0, 1 / link.bytes_per_second)


def _require_link(link: LinkCost | None, ranks: int, nodes: int) -> LinkCost:
    if link is not None:
        return link
    if nodes > 1:
        raise FitError(
            f"{count(ranks, 'worker')} on {count(nodes, 'node')}: no link between nodes was measured or stated; "
            "add --node-link, or --measured with an all-reduce over as many workers and nodes"
        )
    raise FitError(
        f"{count(ranks, 'worker')}: no link between workers was measured or stated; "
        "add --measured with a bundle of program allreduce or collectives, or --link"
    )
