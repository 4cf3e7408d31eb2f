import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.collectives.collective_fit import TimedAllReduce, cross_validate_collective, fit_collective
from scalecurve_models.collectives.comparison import compare_algorithms
from scalecurve_models.collectives.costs import (
    ALGORITHMS,
    LinkCost,
    RankGroup,
    cost,
    lower_bound,
)
from scalecurve_models.fitting.least_squares import FitError
from tests.models.collectives.collectives_cases import SIZES, A, B, G, points

SINGLE = [algorithm for algorithm in ALGORITHMS.values() if algorithm.links == 1]


@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_costs_are_the_table_of_the_literature(n):
    size, log = 1e6, math.log2(n)
    expected = {
        "parameter-server": 2 * n * (A + size * B),
        "sharded-server": 2 * n / 4 * size * B + 2 * n * A,
        "tree": 2 * log * (A + size * B) + log * size * G,
        "recursive-doubling": log * (A + size * B + size * G),
        "rabenseifner": 2 * log * A + 2 * (n - 1) / n * size * B + (n - 1) / n * size * G,
        "ring": 2 * (n - 1) * A + 2 * (n - 1) / n * size * B + (n - 1) / n * size * G,
        "double-tree": 2 * log * A + 2 * size * B,
        "in-network": A + size * B,
    }
    for name, seconds in expected.items():
        assert cost(ALGORITHMS[name], RankGroup(n, servers=4), size, LinkCost(A, B), gamma=G) == pytest.approx(
            seconds
        ), name


def test_hierarchical_sends_only_its_share_between_nodes():
    size, within, between = 1e8, (1e-6, 1e-11), (5e-6, 1e-9)
    seconds = cost(ALGORITHMS["hierarchical"], RankGroup(32, nodes=4), size, LinkCost(*within), LinkCost(*between))
    expected = 2 * 7 * within[0] + 2 * 3 * between[0] + 2 * 7 / 8 * size * within[1] + 2 * 3 / 4 * size / 8 * between[1]
    assert seconds == pytest.approx(expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda a: a.name)
def test_one_rank_costs_nothing(algorithm):
    assert cost(algorithm, RankGroup(1), 1e9, LinkCost(1, 1), gamma=1) == 0


@given(st.integers(2, 300), st.floats(1, 1e10))
def test_bandwidth_optimal_algorithms_meet_the_lower_bound_and_none_beats_it(n, size):
    bound = lower_bound(n, size, 1 / B)
    for algorithm in SINGLE:
        if algorithm.name in ("in-network", "sharded-server"):
            continue  # the switch adds up, the servers send beside the ranks: the bound is not theirs
        assert cost(algorithm, RankGroup(n), size, LinkCost(0, B)) >= bound * (1 - 1e-12)
    assert cost(ALGORITHMS["ring"], RankGroup(n), size, LinkCost(0, B)) == pytest.approx(bound)


def test_no_power_of_two_costs_two_further_steps():
    assert cost(ALGORITHMS["rabenseifner"], RankGroup(6), 0, LinkCost(A, B)) == pytest.approx((2 * 2 + 2) * A)
    assert cost(ALGORITHMS["recursive-doubling"], RankGroup(6), 0, LinkCost(A, B)) == pytest.approx((2 + 2) * A)
    assert cost(ALGORITHMS["tree"], RankGroup(6), 0, LinkCost(A, B)) == pytest.approx(2 * 3 * A)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RankGroup(0), "ranks must be an integer of at least 1, got 0"),
        (lambda: RankGroup(8, servers=-1), "servers must be an integer"),
        (lambda: RankGroup(6, nodes=4), "6 ranks cannot be spread evenly over 4 nodes"),
        (lambda: cost(ALGORITHMS["ring"], RankGroup(4), -8, LinkCost(A, B)), "must not be negative"),
        (lambda: fit_collective(ALGORITHMS["ring"], []), "needs at least 3 message sizes, got 0"),
        (lambda: fit_collective(ALGORITHMS["ring"], points("ring", [1], SIZES)), "single rank, which sends nothing"),
        (lambda: fit_collective(ALGORITHMS["ring"], points("ring", [4], SIZES[:2])), "at least 3 message sizes"),
        (lambda: cross_validate_collective(ALGORITHMS["ring"], points("ring", [4], SIZES[:3])), "one size left out"),
        (
            lambda: fit_collective(ALGORITHMS["ring"], [TimedAllReduce(RankGroup(2), s, 0.0) for s in SIZES]),
            "times must be finite positive numbers, got 0 as number 1",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(make, said):
    with pytest.raises(FitError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("algorithm", [a for a in SINGLE if a.name != "sharded-server"], ids=lambda a: a.name)
def test_known_latency_and_bandwidth_come_back(algorithm):
    fit = fit_collective(algorithm, points(algorithm.name, [2, 4, 8], SIZES))
    (regime,) = fit.regimes
    assert regime.latencies[0].value == pytest.approx(A)
    assert regime.bandwidths[0].value == pytest.approx(1e-9 / B)
    assert fit.seconds(RankGroup(64), 1e9) == pytest.approx(cost(algorithm, RankGroup(64), 1e9, LinkCost(A, B)))


def test_links_of_two_kinds_come_back_apart():
    shapes = [RankGroup(8), RankGroup(16, 2), RankGroup(32, 4), RankGroup(8, 8)]
    given_ = [
        TimedAllReduce(s, size, cost(ALGORITHMS["hierarchical"], s, size, LinkCost(2e-6, 3e-12), LinkCost(9e-6, 4e-11)))
        for s in shapes
        for size in SIZES
    ]
    fit = fit_collective(ALGORITHMS["hierarchical"], given_)
    assert [p.value for p in fit.regimes[0].latencies] == pytest.approx([2e-6, 9e-6])
    assert [p.value for p in fit.regimes[0].inverse] == pytest.approx([3e-12, 4e-11])
    one_node = fit_collective(ALGORITHMS["hierarchical"], [p for p in given_ if p.shape.nodes == 1])
    assert one_node.regimes[0].inverse[1].note == "not identifiable: no point depends on it"


def test_the_right_algorithm_is_found_by_worker_counts_it_did_not_see():
    for name in ("ring", "tree", "rabenseifner"):
        compared = compare_algorithms(points(name, [2, 4, 8, 16], SIZES, noise=0.02))
        assert compared.best.fit.algorithm.name == name
        assert compared.best.ranks_error < 0.04


def test_a_cost_of_every_call_is_told_from_that_of_every_message():
    given_ = [TimedAllReduce(p.shape, p.bytes, p.seconds + 20e-6) for p in points("ring", [2, 4, 8], SIZES, noise=0.01)]
    compared = compare_algorithms(given_)
    assert compared.best.fit.algorithm.name == "ring"
    launch = compared.best.fit.regimes[0].launch
    assert launch.low <= 20e-6 <= launch.high
    assert compared.best.fit.regimes[0].latencies[0].value == pytest.approx(A, rel=0.2)
    alone = fit_collective(ALGORITHMS["ring"], [p for p in given_ if p.shape.ranks == 4])
    assert alone.regimes[0].launch is None
    assert alone.seconds(RankGroup(1), 1e6) == 0


def protocols(size, n=8):
    """Seconds as NCCL's own model has them: the fastest of LL, LL128 and Simple, each with its α and β."""
    lines_ = ((1.0e-6, 1 / 60e9), (1.4e-6, 1 / 180e9), (3.7e-6, 1 / 370e9))
    return min(2 * (n - 1) * a + 2 * (n - 1) / n * size * b for a, b in lines_)


def test_switched_protocols_are_seen_and_left_out_sizes_predicted():
    rng = np.random.default_rng(1)
    sizes = [8 * 2**i for i in range(28)]
    given_ = [
        TimedAllReduce(RankGroup(8), size, protocols(size) * float(np.exp(0.02 * rng.normal()))) for size in sizes
    ]
    one = cross_validate_collective(ALGORITHMS["ring"], given_, most=1)
    several = cross_validate_collective(ALGORITHMS["ring"], given_)
    assert len(several.fit.regimes) > 1
    assert several.size_error < one.size_error / 2
    assert several.large_error <= 0.10
    assert several.small_error <= 0.20
    assert several.fit.regimes[-1].bandwidths[0].value == pytest.approx(370, rel=0.05)


def test_a_single_protocol_is_left_in_one_piece():
    judged = cross_validate_collective(ALGORITHMS["ring"], points("ring", [8], SIZES, noise=0.01))
    assert len(judged.fit.regimes) == 1
    assert judged.fit.regimes[0].latencies[0].low < A < judged.fit.regimes[0].latencies[0].high


def test_a_prediction_has_an_interval_and_wants_a_size():
    fit = fit_collective(ALGORITHMS["ring"], points("ring", [2, 4], SIZES, noise=0.05))
    prediction = fit.predict(RankGroup(4), 1 << 20)
    assert prediction.low < prediction.value < prediction.high
    with pytest.raises(FitError, match="message size must be positive, got 0 bytes"):
        fit.predict(RankGroup(4), 0)
