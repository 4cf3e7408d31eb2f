"""Which nodes and links a search finds, and with how many runs."""

from __future__ import annotations

import math
import random
from collections.abc import Collection

import pytest

from scalecurve.cluster.slow_nodes import AllFailedError, GroupRun, Nodes, NodeSearch, groups_of


class Machines:
    """Nodes whose group is as fast as its slowest node and link; three repetitions with a spread."""

    def __init__(
        self,
        count: int,
        slow: Collection[int] = (),
        links: Collection[tuple[int, int]] = (),
        broken: Collection[int] = (),
        spread: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.nodes = [f"n{index}" for index in range(count)]
        self.slow = {self.nodes[index] for index in slow}
        self.links = {frozenset((self.nodes[a], self.nodes[b])) for a, b in links}
        self.broken = {self.nodes[index] for index in broken}
        self.random, self.spread = random.Random(seed), spread

    def run(self, nodes: Nodes) -> GroupRun:
        assert len(set(nodes)) == len(nodes)
        if self.broken & set(nodes):
            return GroupRun(nodes, (), "a rank failed")
        bad = self.slow & set(nodes) or any(link <= set(nodes) for link in self.links)
        rate = 100.0 * (0.7 if bad else 1.0)
        return GroupRun(nodes, tuple(rate * math.exp(self.random.gauss(0, self.spread)) for _ in range(3)))

    def search(self) -> NodeSearch:
        search = NodeSearch(self.run)
        search.find(self.nodes)
        return search


@pytest.mark.parametrize("count", [4, 9, 16, 25, 64, 100])
def test_one_slow_node_takes_at_most_twice_the_root(count: int) -> None:
    for at in range(0, count, 1 + count // 20):
        search = Machines(count, slow=[at], seed=at).search()
        assert search.slow_nodes == [f"n{at}"]
        assert (search.slow_links, search.unresolved) == ([], [])
        assert len(search.runs) <= 2 * math.sqrt(count)


@pytest.mark.parametrize("count", [5, 7, 10, 13, 30, 99])
def test_one_slow_node_among_a_number_that_is_no_square(count: int) -> None:
    """The last group is filled up with nodes of the first, which may be the slow one: then it is run once more."""
    for at in range(0, count, 1 + count // 20):
        search = Machines(count, slow=[at], seed=at).search()
        assert search.slow_nodes == [f"n{at}"]
        assert len(search.runs) <= 2 * math.ceil(math.sqrt(count)) + 1


def test_nothing_is_slow() -> None:
    search = Machines(64).search()
    assert (search.slow_nodes, search.slow_links, len(search.runs)) == ([], [], 8)


@pytest.mark.parametrize("slow", [(0, 1), (0, 9), (3, 12), (5, 6, 15), (0, 4, 8)])
def test_several_slow_nodes(slow: tuple[int, ...]) -> None:
    assert set(Machines(16, slow=slow).search().slow_nodes) == {f"n{index}" for index in slow}


@pytest.mark.parametrize("link", [(0, 1), (0, 3), (1, 2), (12, 15), (5, 7)])
def test_a_slow_link(link: tuple[int, int]) -> None:
    search = Machines(16, links=[link]).search()
    assert search.slow_nodes == []
    assert [set(found) for found in search.slow_links] == [{f"n{index}" for index in link}]


def test_a_node_on_which_nothing_runs() -> None:
    search = Machines(16, broken=[6]).search()
    assert search.slow_nodes == ["n6"]


def test_nothing_runs_anywhere() -> None:
    with pytest.raises(AllFailedError, match="a rank failed"):
        Machines(9, broken=range(9)).search()


@pytest.mark.parametrize(("count", "runs"), [(2, 1), (3, 3)])
def test_few_nodes_run_in_pairs(count: int, runs: int) -> None:
    assert len(Machines(count).search().runs) == runs


def test_three_nodes() -> None:
    assert Machines(3, slow=[1]).search().slow_nodes == ["n1"]
    search = Machines(3, links=[(0, 2)]).search()
    assert (search.slow_nodes, search.slow_links) == ([], [("n0", "n2")])


def test_noise_makes_no_node_slow() -> None:
    """Where the repetitions of a group differ by as much as a slow node costs."""
    found = [Machines(16, spread=0.2, seed=seed).search().slow_nodes for seed in range(40)]
    assert sum(map(bool, found)) <= 6


def test_an_interval_is_as_wide_as_the_repetitions_differ() -> None:
    quiet, noisy = (Machines(16, spread=spread).search() for spread in (0.001, 0.05))
    widths = []
    for search in (quiet, noisy):
        relative = search.relative(search.runs[0])
        assert relative.low is not None
        assert relative.high is not None
        widths.append(relative.high - relative.low)
    assert widths[0] < 0.01 < widths[1]
    once = NodeSearch(lambda nodes: GroupRun(nodes, (1.0,)))
    once.find([f"n{index}" for index in range(9)])
    assert once.relative(once.runs[0]).low is None


def test_groups_are_of_one_size() -> None:
    for count in range(4, 70):
        nodes = [str(index) for index in range(count)]
        groups = groups_of(nodes)
        (size,) = {len(group) for group in groups}
        assert size == (2 if count == 5 else math.ceil(math.sqrt(count)))
        assert {node for group in groups for node in group} == set(nodes)
