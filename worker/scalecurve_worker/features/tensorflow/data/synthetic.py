"""Random batches that live on the devices: a step without input cost."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from scalecurve_worker.features.tensorflow.data.augment import Augmenter
from scalecurve_worker.features.tensorflow.data.sampler import Batch, ReplicaShard, make_replica_batches
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.training.data.augmentation import Augment

POOL = 4


class SyntheticReplicas:
    """A pool of batches made once on the device and served in turn, every replica's own.

    Normal deviates, never zeros. Augmentation is drawn anew in every step, so that a step has the cost of it.
    """

    def __init__(self, shard: ReplicaShard, augment: Augment, shape: tuple[int, ...], classes: int) -> None:
        """``shape`` is (channels, height, width)."""
        self._shard, self._plain = shard, augment == Augment()
        self._instances = augment.instances
        self._augmenter = Augmenter(augment, shard.seed, POOL * shard.batch)
        channels, *size = shape

        def draw(turn: int, replica: int) -> Batch:
            random = np.random.default_rng((shard.seed, shard.first + replica, turn))
            inputs = random.standard_normal((shard.batch, *size, channels), dtype=np.float32)
            return inputs, random.integers(classes, size=shard.batch, dtype=np.int64)

        self._pool = [make_replica_batches(shard.strategy, partial(draw, turn)) for turn in range(POOL)]

    def endless(self) -> Iterator[Batch]:
        for step in count():
            batch = self._pool[step % POOL]
            yield batch if self._plain else self._augment_batch(batch, step)

    def _augment_batch(self, batch: Batch, step: int) -> Batch:
        parts: list[Any] = [self._shard.strategy.experimental_local_results(each) for each in batch]
        epoch, turn = divmod(step, POOL)
        self._augmenter.begin(epoch)
        items = np.arange(turn * self._shard.batch, (turn + 1) * self._shard.batch)

        def part(replica: int) -> Batch:
            of = self._shard.first + replica
            here = replica % len(parts[0])
            x, y = (tf.concat([each[here]] * self._instances, axis=0) for each in parts)
            x = self._augmenter.warp(self._augmenter.move(x, of, epoch, turn), items)
            return self._augmenter.cut(x, of, epoch, turn), y

        return make_replica_batches(self._shard.strategy, part)
