"""The cost of an all-reduce: n ranks, S bytes, α seconds per message, β per byte sent, γ per byte reduced.

Each algorithm is a row of coefficients: t = a(n)·α + b(n)·S·β + c(n)·S·γ (hierarchical: separate α and β
within and between nodes). Sources
- R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005): binomial tree, recursive doubling, Rabenseifner's
  halving and doubling, and the two further steps where n is no power of two.
- P. Patarasuk, X. Yuan, JPDC 69 (2009): ring, and the lower bound 2(n-1)/n·S that every rank must send.
- P. Sanders, J. Speck, J. Träff, Parallel Computing 35 (2009): pipelined double binary tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalecurve_models.fitting.least_squares import FitError


@dataclass(frozen=True)
class RankGroup:
    """The participants: total ``ranks``, spread evenly over ``nodes``; ``servers`` of a sharded parameter server."""

    ranks: int
    nodes: int = 1
    servers: int = 1

    def __post_init__(self) -> None:
        for name in ("ranks", "nodes", "servers"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise FitError(f"collectives: {name} must be an integer of at least 1, got {value!r}")
        if self.ranks % self.nodes:
            raise FitError(f"collectives: {self.ranks} ranks cannot be spread evenly over {self.nodes} nodes")

    @property
    def per_node(self) -> int:
        return self.ranks // self.nodes


Coefficients = tuple[tuple[float, ...], tuple[float, ...], float]
"""Messages for each α, vectors sent for each β, vectors reduced (γ)."""


@dataclass(frozen=True)
class Algorithm:
    """One way to sum vectors over ranks."""

    name: str
    title: str
    equation: str
    coefficients: Callable[[RankGroup], Coefficients]
    links: int = 1

    @property
    def symbols(self) -> tuple[str, ...]:
        if self.links == 1:
            return ("alpha", "beta")
        return ("alpha_in", "alpha_out", "beta_in", "beta_out")


def cost(algorithm: Algorithm, shape: RankGroup, size: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Seconds of one all-reduce of ``size`` bytes over one kind of link; 0 for a single rank.

    Raises FitError for an algorithm over two kinds of links (see ``hierarchical_cost``), or negative numbers.
    """
    if algorithm.links != 1:
        raise FitError(f"collectives: {algorithm.name} has two kinds of links; use hierarchical_cost")
    return _sum(algorithm.coefficients(shape), size, (alpha,), (beta,), gamma)


def hierarchical_cost(
    shape: RankGroup, size: float, alpha: tuple[float, float], beta: tuple[float, float], gamma: float = 0.0
) -> float:
    """Seconds of a hierarchical all-reduce; α and β as (within a node, between nodes)."""
    return _sum(HIERARCHICAL.coefficients(shape), size, alpha, beta, gamma)


@dataclass(frozen=True)
class LinkCost:
    """α in seconds per message and β in seconds per byte."""

    alpha: float
    beta: float


def cost_of(
    algorithm: Algorithm, shape: RankGroup, size: float, within: LinkCost, between: LinkCost, gamma: float = 0.0
) -> float:
    """Seconds over one or two kinds of link; across nodes, an algorithm unaware of nodes is bound by ``between``.

    Raises FitError for negative numbers.
    """
    if algorithm.links == 1:
        link = between if shape.nodes > 1 else within
        return cost(algorithm, shape, size, link.alpha, link.beta, gamma)
    return hierarchical_cost(shape, size, (within.alpha, between.alpha), (within.beta, between.beta), gamma)


def lower_bound(ranks: int, size: float, bandwidth: float) -> float:
    """Seconds that no all-reduce can beat: every rank sends 2(n-1)/n of the vector at ``bandwidth`` bytes/s."""
    return 2 * (ranks - 1) / ranks * size / bandwidth


def _sum(
    coefficients: Coefficients, size: float, alpha: tuple[float, ...], beta: tuple[float, ...], gamma: float
) -> float:
    inputs = (*alpha, *beta, gamma, size)
    if any(not value >= 0 for value in inputs):
        raise FitError(f"collectives: latencies, inverse bandwidths and sizes must not be negative, got {inputs}")
    messages, sent, added = coefficients
    time = sum(count * each for count, each in zip(messages, alpha, strict=True))
    time += sum(count * each for count, each in zip(sent, beta, strict=True)) * size
    return time + added * size * gamma


def _floor_log2(n: int) -> int:
    return n.bit_length() - 1


def _ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _alone(of: Callable[[RankGroup], Coefficients], links: int = 1) -> Callable[[RankGroup], Coefficients]:
    nothing: Coefficients = ((0.0,) * links, (0.0,) * links, 0.0)
    return lambda shape: of(shape) if shape.ranks > 1 else nothing


def _parameter_server(shape: RankGroup) -> Coefficients:
    return (2.0 * shape.ranks,), (2.0 * shape.ranks,), 0.0


def _sharded(shape: RankGroup) -> Coefficients:
    return (2.0 * shape.ranks,), (2.0 * shape.ranks / shape.servers,), 0.0


def _tree(shape: RankGroup) -> Coefficients:
    depth = float(_ceil_log2(shape.ranks))
    return (2 * depth,), (2 * depth,), depth


def _doubling(shape: RankGroup) -> Coefficients:
    n = shape.ranks
    steps = _floor_log2(n)
    if n == 1 << steps:
        return (float(steps),), (float(steps),), float(steps)
    # Ranks beyond the power of two first send their vector to a partner and receive the sum from it at the end.
    return (steps + 2.0,), (steps + 2.0,), steps + 1.0


def _rabenseifner(shape: RankGroup) -> Coefficients:
    n = shape.ranks
    steps = _floor_log2(n)
    power = 1 << steps
    share = (power - 1) / power
    if n == power:
        return (2.0 * steps,), (2 * share,), share
    return (2.0 * steps + 2,), (2 * share + 2,), share + 1


def _ring(shape: RankGroup) -> Coefficients:
    n = shape.ranks
    return (2.0 * (n - 1),), (2 * (n - 1) / n,), (n - 1) / n


def _double_tree(shape: RankGroup) -> Coefficients:
    return (2.0 * _ceil_log2(shape.ranks),), (2.0,), 0.0


def _in_network(shape: RankGroup) -> Coefficients:
    return (1.0,), (1.0,), 0.0


def _hierarchical(shape: RankGroup) -> Coefficients:
    """Reduce-scatter within the node, ring over nodes on the rest, all-gather within the node."""
    g, nodes = shape.per_node, shape.nodes
    within, between = 2 * (g - 1) / g, 2 * (nodes - 1) / nodes / g
    added = (g - 1) / g + (nodes - 1) / nodes / g
    return (2.0 * (g - 1), 2.0 * (nodes - 1)), (within, between), added


HIERARCHICAL = Algorithm(
    "hierarchical",
    "Hierarchical",
    "2(g-1)α_in + 2(m-1)α_out + 2(g-1)/g·S·β_in + 2(m-1)/m·S/g·β_out, g ranks on each of m nodes",
    _alone(_hierarchical, 2),
    links=2,
)

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("parameter-server", "Parameter server", "2n(α + Sβ)", _alone(_parameter_server)),
        Algorithm("sharded-server", "Sharded parameter server", "2nα + 2(n/p)Sβ", _alone(_sharded)),
        Algorithm("tree", "Binomial tree", "2⌈log2 n⌉(α + Sβ) + ⌈log2 n⌉Sγ", _alone(_tree)),
        Algorithm("recursive-doubling", "Recursive doubling", "log2 n(α + Sβ + Sγ)", _alone(_doubling)),
        Algorithm(
            "rabenseifner",
            "Recursive halving and doubling",
            "2log2 n·α + 2(n-1)/n·Sβ + (n-1)/n·Sγ",
            _alone(_rabenseifner),
        ),
        Algorithm("ring", "Ring", "2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ", _alone(_ring)),
        Algorithm("double-tree", "Pipelined double binary tree", "2log2 n·α + 2Sβ", _alone(_double_tree)),
        HIERARCHICAL,
        Algorithm("in-network", "In-network reduction", "α + Sβ", _alone(_in_network)),
    )
}


def algorithm_of(name: str) -> Algorithm:
    """An algorithm by name. Raises FitError for an unknown one."""
    if name not in ALGORITHMS:
        raise FitError(f"collectives: unknown algorithm {name!r}; expected one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]
