"""Collectives of torch.distributed, called with what this rank sends and room for what it gets."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor

from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_worker.features.collectives.benchmark import TimedCall, granule_of

Carried = Callable[[Tensor], object]
# Renamed in torch 2.14.
_reduce_scatter: Callable[..., object] = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather: Callable[..., object] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_all_to_all: Callable[..., object] = dist.all_to_all_single
_broadcast: Callable[..., object] = dist.broadcast


def operation(collective: Collective) -> TimedCall:
    """Return the library's own operation, by whatever algorithm it chooses."""
    granule = dist.get_world_size() if collective.shared_out else 1
    return TimedCall(collective, _CARRIED[collective], granule)


def all_reduce_by(algorithm: AllReduce, per_node: int) -> TimedCall:
    """Return an all-reduce by one algorithm or pattern."""
    carry = all_reduce_of(algorithm, per_node)
    return TimedCall(Collective.all_reduce, lambda sent, _: carry(sent), granule_of(algorithm, per_node))


def all_reduce_of(algorithm: AllReduce, per_node: int) -> Carried:
    """Return what sums a message over all ranks; ``per_node`` consecutive ranks make a node."""
    if algorithm is AllReduce.parameter_server:
        return _server_all_reduce
    if algorithm is AllReduce.hierarchical:
        return _hierarchical_all_reduce(per_node)
    return dist.all_reduce


def _server_all_reduce(message: Tensor) -> None:
    dist.reduce(message, 0)
    dist.broadcast(message, 0)


def _hierarchical_all_reduce(per_node: int) -> Carried:
    """Reduce-scatter inside the node, all-reduce of each share across nodes, all-gather inside the node."""
    rank, world = dist.get_rank(), dist.get_world_size()
    nodes = [list(range(first, first + per_node)) for first in range(0, world, per_node)]
    # Every rank makes every group, in the same order.
    within: Any = [dist.new_group(ranks) for ranks in nodes][rank // per_node]
    across: Any = [dist.new_group(list(range(local, world, per_node))) for local in range(per_node)][rank % per_node]
    share: Tensor | None = None

    def carry(message: Tensor) -> None:
        nonlocal share
        if share is None or share.numel() * per_node != message.numel():
            share = message.new_empty(message.numel() // per_node)
        _reduce_scatter(share, message, group=within)
        dist.all_reduce(share, group=across)
        _all_gather(message, share, group=within)

    return carry


def _ring(sent: Tensor, received: Tensor) -> None:
    """To the next rank and from the one before, together: apart, every rank could wait for its neighbor."""
    rank, world = dist.get_rank(), dist.get_world_size()
    both = [dist.P2POp(dist.isend, sent, (rank + 1) % world), dist.P2POp(dist.irecv, received, (rank - 1) % world)]
    for request in dist.batch_isend_irecv(both):
        request.wait()


_CARRIED: dict[Collective, Callable[[Tensor, Tensor], object]] = {
    Collective.all_reduce: lambda sent, _: dist.all_reduce(sent),
    Collective.all_gather: lambda sent, received: _all_gather(received, sent),
    Collective.reduce_scatter: lambda sent, received: _reduce_scatter(received, sent),
    Collective.all_to_all: lambda sent, received: _all_to_all(received, sent),
    Collective.broadcast: lambda sent, _: _broadcast(sent, 0),
    Collective.send_recv: _ring,
}
