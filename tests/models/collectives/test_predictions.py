"""All-reduces at other worker counts, and the message sizes that timed ones recommend."""

import pytest

from scalecurve_models.collectives.collective_fit import TimedAllReduce
from scalecurve_models.collectives.comparison import compare_algorithms
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost
from scalecurve_models.collectives.message_sizes import fastest_table, least_size_table, least_sizes
from scalecurve_models.collectives.predictions import predict_collective, prediction_table
from scalecurve_models.fitting.least_squares import FitError
from tests.models.collectives.collectives_cases import SIZES as ALL_SIZES
from tests.models.collectives.collectives_cases import A, B, points

SIZES = ALL_SIZES[::2]
RING = compare_algorithms(points("ring", [2, 4, 8], SIZES, noise=0.01), series="ring")


def truth(ranks: int, size: int) -> float:
    return cost(ALGORITHMS["ring"], RankGroup(ranks), size, LinkCost(A, B))


def test_another_count_is_predicted_with_an_interval() -> None:
    predicted = predict_collective(RING, [16], workers_per_node=16)
    assert [each.bytes for each in predicted] == SIZES
    for each in predicted:
        assert each.seconds == pytest.approx(truth(16, each.bytes), rel=0.05)
        assert each.low is not None
        assert each.high is not None
        assert each.low < each.seconds < each.high


def test_a_timed_count_is_predicted_without_it() -> None:
    predicted = predict_collective(RING, [4])
    assert {each.how for each in predicted} == {"left out"}
    for each in predicted:
        assert each.seconds == pytest.approx(each.measured, rel=0.1)
    two = compare_algorithms(points("ring", [2, 4], SIZES), series="two")
    assert {each.how for each in predict_collective(two, [4])} == {"fitted"}
    (note,) = [n for n in prediction_table([two], [predict_collective(two, [4])]).notes if n.startswith("two")]
    assert note == "two: fewer than 3 worker counts, so no other count was predicted to test the algorithm."


def test_what_no_point_vouches_for_is_refused() -> None:
    (refused,) = predict_collective(RING, [16])
    assert refused.reason.startswith("16 workers on 2 nodes (8 per node), but only one node was timed")
    one = compare_algorithms(points("ring", [8], SIZES), series="one")
    (refused,) = predict_collective(one, [16])
    assert refused.reason == "only 8 workers were timed, so that nothing tells how the time grows: time another count"
    assert prediction_table([one], [[refused]]).frame()["how"].tolist() == ["refused"]
    with pytest.raises(FitError, match="a collective needs at least 2 workers, got 1"):
        predict_collective(RING, [1])


def test_counts_that_fill_no_nodes_are_refused() -> None:
    placed = [TimedAllReduce(RankGroup(n, n // 4), s, truth(n, s)) for n in (4, 8, 16) for s in SIZES]
    compared = compare_algorithms(placed, series="nodes")
    (refused,) = predict_collective(compared, [18])
    assert refused.reason == "18 workers cannot be spread evenly over 5 nodes"
    assert {each.group for each in predict_collective(compared, [32])} == {RankGroup(32, 8)}


def test_the_least_message_that_fills_the_links() -> None:
    least, refused = least_sizes([RING], [6, 16])
    assert [(each.group.ranks, each.basis) for each in least] == [
        (2, "measured"), (4, "measured"), (6, "predicted"), (8, "measured"),
    ]  # fmt: skip
    for each in least:
        assert each.reached >= 0.9 * each.highest
        assert each.highest == pytest.approx(1 / B, rel=0.1)
    assert refused[0].startswith("ring: 16 workers: 16 workers on 2 nodes")
    assert least_size_table([RING], least, refused).notes[1:] == refused
    short = compare_algorithms(points("ring", [2, 4], SIZES[:4]), series="short")
    assert least_sizes([short])[0][0].sentence.endswith("; larger messages may be faster still: time larger ones")


def test_the_fastest_series_of_every_size() -> None:
    """A ring of many slow messages against a tree of few: which is faster changes once with the size."""
    tree = compare_algorithms(points("tree", [2, 8], SIZES), series="tree")
    ring = compare_algorithms(points("ring", [2, 8], SIZES), series="ring")
    table = fastest_table([tree, ring]).frame()
    assert table[table["workers"] == 8]["series"].tolist() == ["tree", "ring"]
    assert fastest_table([ring]).rows == ()
