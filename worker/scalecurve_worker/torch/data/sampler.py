"""Which items a worker reads, and in what order."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from scalecurve_worker.data.images import DataError, Split
from scalecurve_worker.torch.data.loader import DataSpec


@dataclass(frozen=True)
class DataShard:
    """The place of one worker among all, and the seed that orders the set for all of them."""

    rank: int
    world: int
    seed: int


def steps_per_epoch(items: int, *, batch: int, split: Split, shard: DataShard) -> int:
    """Batches of one worker: full ones alone in training, all that is there in validation."""
    if split == "val":
        items_here = len(range(shard.rank, items, shard.world))
        return -(-items_here // batch)
    steps = items // (shard.world * batch)
    if steps == 0:
        raise DataError(f"{items} items do not fill one batch of {batch} on each of {shard.world} workers")
    return steps


def epoch_order(spec: DataSpec, shard: DataShard, epoch: int) -> Tensor:
    """Item numbers of one worker in one epoch, int64, on the CPU.

    Training: the whole set shuffled by ``seed + epoch``, every ``world``-th from ``rank`` on, the tail that fills
    no batch left out. That is what ``DistributedSampler(drop_last=True)`` gives, and step k consumes the same
    global batch whatever the number of workers. Validation: in the order of the set, none twice, none left out.
    """
    if spec.split == "val":
        return torch.arange(spec.items)[shard.rank :: shard.world]
    generator = torch.Generator().manual_seed(shard.seed + epoch)
    used = spec.steps * spec.batch * shard.world
    return torch.randperm(spec.items, generator=generator)[shard.rank : used : shard.world]


def stream_seed(*words: int) -> int:
    """Mix non-negative numbers (a seed, a rank, an epoch) into the seed of an independent stream, below 2^63."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))
