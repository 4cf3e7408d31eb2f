"""Finding slow nodes and links of a set by running groups of them, and not all pairs. Pure.

About √N groups of √N nodes each are compared with one another. A group that is slower is halved: each half runs with
nodes of fast groups in place of the rest, so that every run has as many nodes as the first and their rates compare.
One slow node among N takes at most 2·√N runs. A group that is slow only as a whole has a slow link: its ends are found
by halving, too. Links between nodes of different groups are not run.

Rates are compared as logarithms, with the spread within runs pooled over all runs: a run is slow if its 95 % interval,
relative to a fast group, lies below 1 - ``tolerance``. A run that fails is slow.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scalecurve.statistics.spread import student_quantile

Nodes = tuple[str, ...]
_LEVEL = 0.95


@dataclass(frozen=True)
class GroupRun:
    """What one group did: the rate of each repetition, the higher the better; none if it failed."""

    nodes: Nodes
    rates: tuple[float, ...]
    problem: str = ""

    @property
    def log_rate(self) -> float:
        """Mean logarithm; -inf for a run that failed."""
        return statistics.fmean(map(math.log, self.rates)) if self.rates else -math.inf


@dataclass(frozen=True)
class RelativeRate:
    """A run's rate relative to a fast group, with its interval; the interval is None where nothing was repeated."""

    ratio: float
    low: float | None
    high: float | None


class AllFailedError(Exception):
    """No group ran, so there is nothing to compare with; the message is the first one's."""


@dataclass
class NodeSearch:
    """One search; ``run`` measures a group of nodes, all of which are distinct."""

    run: Callable[[Nodes], GroupRun]
    tolerance: float = 0.1
    runs: list[GroupRun] = field(default_factory=list)
    slow_nodes: list[str] = field(default_factory=list)
    slow_links: list[tuple[str, str]] = field(default_factory=list)
    unresolved: list[Nodes] = field(default_factory=list)  # slow as a whole, with no node or link that explains it
    reference: float = 0.0  # logarithm of a fast group's rate
    size: int = 0
    _fast: list[str] = field(default_factory=list)
    _slow_before: dict[Nodes, bool] = field(default_factory=dict)

    def find(self, nodes: Sequence[str]) -> None:
        """NodeSearch ``nodes``; with fewer than four every pair is run.

        Raises:
            AllFailedError: when no group ran.
        """
        groups = groups_of(nodes)
        self.size = len(groups[0])
        self.runs += [self.run(group) for group in groups]
        ranked = sorted((run.log_rate for run in self.runs if run.rates), reverse=True)
        if not ranked:
            raise AllFailedError(self.runs[0].problem)
        # Not the median: most groups may have a slow node. Not the fastest of many, which is so by chance.
        self.reference = ranked[len(ranked) // 8]
        slow = [run.nodes for run in self.runs if self.is_slow(run)]
        self._fast = [node for group in groups if group not in slow for node in group]
        self._fast = list(dict.fromkeys(self._fast))
        if len(nodes) < 4:
            self._compare_pairs(nodes, slow)
            return
        for group in slow:
            suspects = tuple(node for node in group if node not in self._fast and node not in self.slow_nodes)
            if suspects == group:
                self._slow_before[group] = True
                self._narrow(group)
            elif suspects and self._slow(suspects):
                self._narrow(suspects)
            elif not set(group) & set(self.slow_nodes):
                self.unresolved.append(group)

    def relative(self, run: GroupRun) -> RelativeRate:
        """``run`` relative to a fast group; its error is that of two means of as many repetitions."""
        ratio = math.exp(run.log_rate - self.reference) if run.rates else 0.0
        variances = [(statistics.variance(map(math.log, each.rates)), len(each.rates) - 1)
                     for each in self.runs if len(each.rates) > 1]  # fmt: skip
        degrees = sum(weight for _, weight in variances)
        if not run.rates or not degrees:
            return RelativeRate(ratio, None, None)
        spread = math.sqrt(sum(variance * weight for variance, weight in variances) / degrees)
        reach = student_quantile(degrees, _LEVEL) * spread * math.sqrt(2 / len(run.rates))
        return RelativeRate(ratio, ratio * math.exp(-reach), ratio * math.exp(reach))

    def is_slow(self, run: GroupRun) -> bool:
        """Whether it is slower than a fast group by more than the tolerance, the interval included."""
        if not run.rates:
            return True
        relative = self.relative(run)
        return (relative.ratio if relative.high is None else relative.high) < 1 - self.tolerance

    def _compare_pairs(self, nodes: Sequence[str], slow: Sequence[Nodes]) -> None:
        """A node all of whose pairs are slow is slow itself; any other slow pair has a slow link."""
        of = {node: [pair for pair in slow if node in pair] for node in nodes}
        if len(slow) > 1:
            self.slow_nodes = [node for node, pairs in of.items() if len(pairs) == len(nodes) - 1]
        self.slow_links = [(a, b) for a, b in slow if not {a, b} & set(self.slow_nodes)]

    def _narrow(self, group: Nodes) -> None:
        """Find what makes a slow group slow, one culprit after the other."""
        rest = group
        while rest:
            left, direct, cleared = rest, False, set[str]()
            while len(left) > 1:
                half = left[: len(left) // 2]
                direct = self._slow(half)
                if not direct:
                    cleared.update(half)
                left = half if direct else left[len(left) // 2 :]
            if not direct and not self._slow(left):
                self._find_link(rest)
                return
            self.slow_nodes += left
            cleared.update(left)
            rest = tuple(node for node in rest if node not in cleared)
            self._fast += [node for node in cleared if node not in self._fast and node not in left]
            if rest and not self._slow(rest):
                self._fast += [node for node in rest if node not in self._fast]
                return

    def _slow(self, nodes: Nodes) -> bool:
        """Whether they are slow among nodes of fast groups; ``nodes`` that already ran so are not run again."""
        if nodes not in self._slow_before:
            others = [node for node in self._fast if node not in nodes]
            run = self.run((*nodes, *others[: self.size - len(nodes)]))
            self.runs.append(run)
            self._slow_before[nodes] = self.is_slow(run)
        return self._slow_before[nodes]

    def _find_link(self, group: Nodes) -> None:
        """Both ends of a slow link of a group that is slow as a whole: each by halving what is still in question."""
        end = self._fewest(lambda count: self._slow(group[:count]), len(group))
        if end < 2:
            self.unresolved.append(group)
            return
        last, before = group[end - 1], group[: end - 1]
        start = self._fewest(lambda count: self._slow((*before[-count:], last)), len(before))
        self.slow_links.append((before[-start], last))
        self._fast += [node for node in group if node not in (before[-start], last, *self._fast)]

    @staticmethod
    def _fewest(slow: Callable[[int], bool], most: int) -> int:
        """The smallest count that is slow; ``most`` is, and so is every larger count than one that is."""
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if slow(middle) else (middle + 1, high)
        return low


def groups_of(nodes: Sequence[str]) -> list[Nodes]:
    """Groups of ⌈√N⌉ nodes; nodes of the first group fill up the last. Below four nodes, every pair."""
    if len(nodes) < 4:
        return [(a, b) for index, a in enumerate(nodes) for b in nodes[index + 1 :]]
    size = math.ceil(math.sqrt(len(nodes)))
    if len(nodes) < 2 * size:
        size -= 1  # Two groups with a node in common would have no fast one if it is slow.
    groups = [tuple(nodes[start : start + size]) for start in range(0, len(nodes), size)]
    return [(*group, *nodes[: size - len(group)]) for group in groups]
