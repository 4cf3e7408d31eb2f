"""Patterns over gloo in forked ranks: torch is loaded once for all of them. Exits with how many summed wrongly."""

from __future__ import annotations

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from scalecurve_api.programs.collectives import AllReduce
from scalecurve_worker.collectives.torch_operations import all_reduce_of


def rank_of(rank: int, world: int, per_node: int, folder: str) -> bool:
    dist.init_process_group("gloo", store=FileStore(f"{folder}/store", world), rank=rank, world_size=world)
    right = True
    for pattern in (AllReduce.parameter_server, AllReduce.hierarchical, AllReduce.ring):
        carry = all_reduce_of(pattern, per_node)
        for count in (per_node, 12 * per_node):
            message = torch.arange(count, dtype=torch.float32) * (rank + 1)
            carry(message)
            right &= torch.equal(message, torch.arange(count) * (world * (world + 1) / 2))
    dist.destroy_process_group()
    return right


def main(world: int, per_node: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(world):
            child = os.fork()
            if child == 0:
                torch.set_num_threads(1)
                os._exit(0 if rank_of(rank, world, per_node, folder) else 1)
            children.append(child)
        return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
