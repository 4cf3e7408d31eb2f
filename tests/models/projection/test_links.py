"""Times of exchanges by links of two levels, by hand."""

import pytest

from scalecurve.hardware.devices import find_link
from scalecurve_models.collectives.collective_fit import CollectiveFit, TimedAllReduce, fit_collective
from scalecurve_models.collectives.costs import LinkCost, RankGroup, cost
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.projection.links import RING, MeasuredPlace, WorkerLinks, links_of
from tests.models.projection.programs import exchange

WITHIN, BETWEEN = LinkCost(0.0, 1 / 100e9), LinkCost(0.0, 1 / 10e9)
FABRIC = WorkerLinks({}, WITHIN, BETWEEN)
GB = 10**9


def test_one_node_takes_the_link_within_it():
    assert FABRIC.seconds(exchange(GB, ranks=8)) == pytest.approx(2 * 7 / 8 / 100)


def test_one_worker_a_node_takes_the_link_between_nodes():
    assert FABRIC.seconds(exchange(GB, ranks=8, nodes=8)) == pytest.approx(2 * 7 / 8 / 10)


def test_two_levels_send_a_share_between_nodes():
    within, between = 2 * 3 / 4 / 100, 2 * 1 / 2 / 4 / 10
    assert FABRIC.seconds(exchange(GB, ranks=8, nodes=2)) == pytest.approx(within + between)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "broadcast"])
def test_one_way_collectives_send_half(kind: str):
    assert FABRIC.seconds(exchange(GB, kind, ranks=8)) == FABRIC.seconds(exchange(GB, ranks=8)) / 2


def test_alone_and_empty_take_nothing():
    assert FABRIC.seconds(exchange(GB, ranks=1)) == FABRIC.seconds(exchange(0, ranks=8)) == 0


def test_latency_counts_by_the_message():
    links = WorkerLinks({}, LinkCost(1e-3, 0.0))
    assert links.seconds(exchange(8, ranks=4)) == pytest.approx(2 * 3 * 1e-3)


def test_several_nodes_without_their_link_are_refused_in_a_line():
    with pytest.raises(FitError, match=r"2 nodes.*--node-link") as refusal:
        WorkerLinks({}, WITHIN).seconds(exchange(GB, ranks=8, nodes=2))
    assert "\n" not in str(refusal.value)
    with pytest.raises(FitError, match="--link"):
        WorkerLinks().seconds(exchange(GB))


def test_links_are_named_or_rates():
    links = links_of([], find_link("100GB/s"), find_link("80gbps"))
    assert links.seconds(exchange(GB, ranks=8)) == pytest.approx(FABRIC.seconds(exchange(GB, ranks=8)))
    assert links.seconds(exchange(GB, ranks=8, nodes=8)) == pytest.approx(
        FABRIC.seconds(exchange(GB, ranks=8, nodes=8))
    )


def measured(place: MeasuredPlace, rate: float) -> CollectiveFit:
    """A fit of ring all-reduces without latency at ``rate`` bytes/s."""
    group = RankGroup(place.ranks, place.nodes)
    sizes = [2**power for power in range(20, 28)]
    timed = [TimedAllReduce(group, size, cost(RING, group, size, LinkCost(0.0, 1 / rate))) for size in sizes]
    return fit_collective(RING, timed)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("all-reduce", 2 * 3 / 4 / 10), ("all-gather", 2 * 3 / 4 / 40), ("reduce-scatter", 2 * 3 / 4 / 10 / 2)],
)
def test_a_kind_takes_what_it_measured_itself_and_else_half_of_an_all_reduce(kind: str, seconds: float):
    reduced, gathered = MeasuredPlace("all-reduce", 4, 1), MeasuredPlace("all-gather", 4, 1)
    links = WorkerLinks({reduced: measured(reduced, 10e9), gathered: measured(gathered, 40e9)})
    one = exchange(GB, kind, ranks=4)
    assert links.seconds(one) == pytest.approx(seconds)
    (line,) = links.assumptions([one])
    assert ("half of an all-reduce" in line) == (kind == "reduce-scatter")


def test_more_ranks_of_a_node_are_extrapolated_by_the_ring_and_say_so():
    links = WorkerLinks({MeasuredPlace("all-reduce", 2, 1): measured(MeasuredPlace("all-reduce", 2, 1), 10e9)})
    one = exchange(GB, ranks=8)
    assert links.seconds(one) == pytest.approx(2 * 7 / 8 / 10)
    assert links.assumptions([one]) == ["all-reduce of 8 workers: extrapolated by the ring from 2 workers"]
