"""The cost of a collective: n ranks, S bytes, α seconds per message, β per byte sent, γ per byte reduced.

Each algorithm is a row of coefficients: t = a(n)·α + b(n)·S·β + c(n)·S·γ (hierarchical: separate α and β
within and between nodes). Sources
- R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005): binomial tree, recursive doubling, Rabenseifner's
  halving and doubling, and the two further steps where n is no power of two.
- P. Patarasuk, X. Yuan, JPDC 69 (2009): ring, and the lower bound 2(n-1)/n·S that every rank must send.
- P. Sanders, J. Speck, J. Träff, Parallel Computing 35 (2009): pipelined double binary tree.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scalecurve_api.features.collectives.kinds import Collective
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
    """One way to carry out a collective."""

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


@dataclass(frozen=True)
class LinkCost:
    """α in seconds per message and β in seconds per byte."""

    alpha: float
    beta: float


def cost(
    algorithm: Algorithm,
    group: RankGroup,
    size: float,
    within: LinkCost,
    between: LinkCost | None = None,
    gamma: float = 0.0,
) -> float:
    """Seconds of one all-reduce of ``size`` bytes; 0 for a single rank. Raises FitError for negative numbers.

    ``between`` nodes is ``within`` by default; across nodes, an algorithm unaware of them is bound by ``between``.
    """
    between = between or within
    links = [within, between] if algorithm.links > 1 else [between if group.nodes > 1 else within]
    inputs = (*(value for link in links for value in (link.alpha, link.beta)), gamma, size)
    if any(not value >= 0 for value in inputs):
        raise FitError(f"collectives: latencies, inverse bandwidths and sizes must not be negative, got {inputs}")
    messages, sent, reduced = algorithm.coefficients(group)
    latency = sum(count * link.alpha for count, link in zip(messages, links, strict=True))
    transfer = sum(share * link.beta for share, link in zip(sent, links, strict=True))
    return latency + (transfer + reduced * gamma) * size


def server_seconds(processes: int, size: float, link: LinkCost) -> float:
    """Seconds of an exchange of ``size`` bytes through a parameter server that is one of the processes."""
    return 2 * (processes - 1) * (link.alpha + size * link.beta)


def lower_bound(ranks: int, size: float, bandwidth: float, collective: Collective = Collective.all_reduce) -> float:
    """Seconds that no algorithm can beat: every rank sends its share, 2(n-1)/n of an all-reduce, at ``bandwidth``."""
    return collective.bus_factor(ranks) * size / bandwidth


def _ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _flat(of: Callable[[int, int], tuple[float, float, float]]) -> Callable[[RankGroup], Coefficients]:
    """Coefficients over one kind of link, from ranks and servers; zero for a single rank."""

    def coefficients(group: RankGroup) -> Coefficients:
        messages, sent, reduced = of(group.ranks, group.servers) if group.ranks > 1 else (0, 0, 0)
        return (float(messages),), (float(sent),), float(reduced)

    return coefficients


def _recursive_doubling(n: int, _: int) -> tuple[float, float, float]:
    steps = n.bit_length() - 1
    if n == 1 << steps:
        return steps, steps, steps
    # Ranks beyond the power of two first send their vector to a partner and receive the sum from it at the end.
    return steps + 2, steps + 2, steps + 1


def _rabenseifner(n: int, _: int) -> tuple[float, float, float]:
    steps = n.bit_length() - 1
    share = 1 - 1 / (1 << steps)
    return (2 * steps, 2 * share, share) if n == 1 << steps else (2 * steps + 2, 2 * share + 2, share + 1)


def _hierarchical(group: RankGroup) -> Coefficients:
    """Reduce-scatter within the node, ring over nodes on the rest, all-gather within the node."""
    if group.ranks == 1:
        return (0.0, 0.0), (0.0, 0.0), 0.0
    g, nodes = group.per_node, group.nodes
    within, between = 2 * (g - 1) / g, 2 * (nodes - 1) / nodes / g
    return (2.0 * (g - 1), 2.0 * (nodes - 1)), (within, between), (within + between) / 2


_ALL = (
    Algorithm("parameter-server", "Parameter server", "2n(α + Sβ)", _flat(lambda n, p: (2 * n, 2 * n, 0))),
    Algorithm(
        "sharded-server", "Sharded parameter server", "2nα + 2(n/p)Sβ", _flat(lambda n, p: (2 * n, 2 * n / p, 0))
    ),
    Algorithm(
        "tree",
        "Binomial tree",
        "2⌈log2 n⌉(α + Sβ) + ⌈log2 n⌉Sγ",
        _flat(lambda n, p: (2 * _ceil_log2(n), 2 * _ceil_log2(n), _ceil_log2(n))),
    ),
    Algorithm("recursive-doubling", "Recursive doubling", "log2 n(α + Sβ + Sγ)", _flat(_recursive_doubling)),
    Algorithm(
        "rabenseifner", "Recursive halving and doubling", "2log2 n·α + 2(n-1)/n·Sβ + (n-1)/n·Sγ", _flat(_rabenseifner)
    ),
    Algorithm(
        "ring",
        "Ring",
        "2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ",
        _flat(lambda n, p: (2 * (n - 1), 2 * (n - 1) / n, (n - 1) / n)),
    ),
    Algorithm(
        "double-tree", "Pipelined double binary tree", "2log2 n·α + 2Sβ", _flat(lambda n, p: (2 * _ceil_log2(n), 2, 0))
    ),
    Algorithm(
        "hierarchical",
        "Hierarchical",
        "2(g-1)α_in + 2(m-1)α_out + 2(g-1)/g·S·β_in + 2(m-1)/m·S/g·β_out, g ranks on each of m nodes",
        _hierarchical,
        links=2,
    ),
    Algorithm("in-network", "In-network reduction", "α + Sβ", _flat(lambda n, p: (1, 1, 0))),
)
ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in _ALL}
"""Of all-reduce."""
_RING = Algorithm("ring", "Ring", "(n-1)α + (n-1)/n·Sβ", _flat(lambda n, p: (n - 1, (n - 1) / n, 0)))
_SHARES = (
    _RING,
    Algorithm(
        "recursive-doubling",
        "Recursive doubling",
        "⌈log2 n⌉α + (n-1)/n·Sβ",
        _flat(lambda n, p: (_ceil_log2(n), (n - 1) / n, 0)),
    ),
)
_OTHERS = {
    Collective.all_gather: _SHARES,
    Collective.reduce_scatter: _SHARES,
    Collective.all_to_all: (
        Algorithm("pairwise", "Pairwise", "(n-1)α + (n-1)/n·Sβ", _flat(lambda n, p: (n - 1, (n - 1) / n, 0))),
    ),
    Collective.broadcast: (
        Algorithm("pipeline", "Pipeline from rank to rank", "(n-1)α + Sβ", _flat(lambda n, p: (n - 1, 1, 0))),
        Algorithm("tree", "Binomial tree", "⌈log2 n⌉(α + Sβ)", _flat(lambda n, p: (_ceil_log2(n), _ceil_log2(n), 0))),
    ),
    Collective.send_recv: (Algorithm("direct", "Direct", "α + Sβ", _flat(lambda n, p: (1, 1, 0))),),
}


def algorithms_of(collective: Collective) -> dict[str, Algorithm]:
    """The ways to carry out a collective, by name; the usual one first, but for all-reduce."""
    if collective is Collective.all_reduce:
        return ALGORITHMS
    return {algorithm.name: algorithm for algorithm in _OTHERS[collective]}
