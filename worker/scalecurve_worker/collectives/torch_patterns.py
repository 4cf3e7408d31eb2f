"""All-reduces composed of torch.distributed's other collectives, over tensors in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor

from scalecurve_api.programs.collectives import AllReduce

Carried = Callable[[Tensor], object]
# Renamed in torch 2.14.
_reduce_scatter: Callable[..., object] = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather: Callable[..., object] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def all_reduce_of(algorithm: AllReduce, per_node: int) -> Carried:
    """What adds a message up over all ranks; ``per_node`` of them, by number, make a node."""
    if algorithm is AllReduce.parameter_server:
        return _through_one
    if algorithm is AllReduce.hierarchical:
        return _by_nodes(per_node)
    return dist.all_reduce


def _through_one(message: Tensor) -> None:
    dist.reduce(message, 0)
    dist.broadcast(message, 0)


def _by_nodes(per_node: int) -> Carried:
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
