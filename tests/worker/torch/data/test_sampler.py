"""Which items a worker takes in an epoch, and in which order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from scalecurve_worker.torch.data import DataError, DataSpec
from scalecurve_worker.torch.data.augment import stream_seed
from scalecurve_worker.torch.data.loader import DataShard, epoch_order, steps_per_epoch


def order(items: int, batch: int, shard: DataShard, epoch: int = 0, split: Any = "train") -> list[int]:
    steps = steps_per_epoch(items, batch=batch, split=split, shard=shard)
    spec = DataSpec("any", split, (1,), 2, items, batch, steps)
    return list(epoch_order(spec, shard, epoch).tolist())


@given(
    world=st.integers(1, 8), batch=st.integers(1, 7), extra=st.integers(0, 60), seed=st.integers(0, 99),
    epoch=st.integers(0, 9),
)  # fmt: skip
def test_training_order_is_that_of_the_distributed_sampler(
    world: int, batch: int, extra: int, seed: int, epoch: int
) -> None:
    items = world * batch + extra
    for rank in range(world):
        sampler: DistributedSampler[int] = DistributedSampler(
            range(items),  # type: ignore[arg-type]
            num_replicas=world,
            rank=rank,
            shuffle=True,
            seed=seed,
            drop_last=True,
        )
        sampler.set_epoch(epoch)
        expected = list(sampler)
        full = len(expected) // batch * batch
        assert order(items, batch, DataShard(rank, world, seed), epoch) == expected[:full]


@given(workers=st.sampled_from([1, 2, 3, 4, 6]), extra=st.integers(0, 30), epoch=st.integers(0, 3))
def test_strong_scaling_consumes_the_same_global_batches(workers: int, extra: int, epoch: int) -> None:
    items, global_batch = 48 + extra, 12
    batch = global_batch // workers
    alone = order(items, global_batch, DataShard(0, 1, 5), epoch)
    shards = [order(items, batch, DataShard(rank, workers, 5), epoch) for rank in range(workers)]
    for step in range(items // global_batch):
        together = {item for shard in shards for item in shard[step * batch : (step + 1) * batch]}
        assert together == set(alone[step * global_batch : (step + 1) * global_batch])


@given(items=st.integers(0, 50), world=st.integers(1, 8), batch=st.integers(1, 9))
def test_validation_takes_every_item_once(items: int, world: int, batch: int) -> None:
    shards = [order(items, batch, DataShard(rank, world, 0), split="val") for rank in range(world)]
    assert sorted(itertools.chain(*shards)) == list(range(items))
    for rank, shard in enumerate(shards):
        assert steps_per_epoch(items, batch=batch, split="val", shard=DataShard(rank, world, 0)) == -(
            -len(shard) // batch
        )


def test_epochs_and_seeds_shuffle_anew() -> None:
    orders = [order(40, 10, DataShard(0, 1, seed), epoch) for seed, epoch in ((0, 0), (0, 1), (7, 0))]
    assert len({tuple(numbers) for numbers in orders}) == 3
    assert all(sorted(numbers) == list(range(40)) for numbers in orders)


def test_a_set_that_fills_no_batch_is_refused() -> None:
    with pytest.raises(DataError, match="9 items do not fill one batch of 5 on each of 2 workers"):
        order(9, 5, DataShard(0, 2, 0))


def test_streams_do_not_collide() -> None:
    seeds = {stream_seed(seed, rank, epoch) for seed in range(5) for rank in range(5) for epoch in range(5)}
    assert len(seeds) == 125
    assert all(0 <= seed < 2**63 for seed in seeds)
