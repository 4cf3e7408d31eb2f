"""Patterns over gloo. Exits with 1 where one summed wrongly.

patterns.py RANKS_PER_NODE
"""

from __future__ import annotations

import torch
from gloo_ranks import check

from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_worker.features.collectives.torch_operations import all_reduce_of


def sums_rightly(rank: int, world: int, per_node: int) -> bool:
    right = True
    for pattern in (AllReduce.parameter_server, AllReduce.hierarchical, AllReduce.ring):
        carry = all_reduce_of(pattern, per_node)
        for count in (per_node, 12 * per_node):
            message = torch.arange(count, dtype=torch.float32) * (rank + 1)
            carry(message)
            right &= torch.equal(message, torch.arange(count) * (world * (world + 1) / 2))
    return right


if __name__ == "__main__":
    check(sums_rightly)
