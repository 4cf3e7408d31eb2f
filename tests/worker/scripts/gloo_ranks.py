"""A script that is one rank of a gloo group, which meets in the folder of the trial."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore


def check(holds: Callable[[int, int, int], bool]) -> NoReturn:
    """Join the group, and exit with 1 unless it holds for this rank, the world size and the script's own number."""
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = FileStore(f"{os.environ['SCALECURVE_OUT']}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    right = holds(rank, world, int(sys.argv[1]))
    dist.destroy_process_group()
    sys.exit(not right)
