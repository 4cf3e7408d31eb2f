"""Paleo's schemes of exchanging gradients: TalwalkarLab/paleo, paleo/comm.py. Bandwidth alone, no latency.

``butterfly`` here is log2(n) * D / B; it is not recursive halving and doubling, which is 2 (n - 1) / n * D / B.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scalecurve.hardware.devices import Link


@dataclass(frozen=True)
class Scheme:
    """For a number of workers: how often the parameters cross one link, and the number of sequential messages."""

    name: str
    crossings: Callable[[int], float]
    messages: Callable[[int], int]


def tree_height(workers: int) -> int:
    """The smallest h with 2**h >= workers."""
    return (workers - 1).bit_length()


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("one_to_all", lambda n: 2.0 * (n - 1), lambda n: 2 * (n - 1)),
        Scheme("tree", lambda n: 2.0 * tree_height(n), lambda n: 2 * tree_height(n)),
        Scheme("butterfly", lambda n: float(tree_height(n)), tree_height),
    )
}
"""The three that Paleo's tables show."""

RING = Scheme("ring", lambda n: 2.0 * (n - 1) / n, lambda n: 2 * (n - 1))
"""What NCCL and Horovod do (Patarasuk and Yuan 2009); no scheme of Paleo's, so for Paleo+ alone."""


def exchange_ms(parameter_bytes: int, link: Link, workers: int, scheme: Scheme, ppp_comm: float = 1.0) -> float:
    """Milliseconds that ``workers`` take to sum their gradients."""
    return scheme.crossings(workers) * (parameter_bytes / link.bytes_per_second * 1e3 / ppp_comm)
