"""Small image sets, kept whole on the devices as bytes and made into batches there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalebench_worker.data.images import DataError, ImageArrays, check_arrays
from scalebench_worker.tensorflow.data.synthetic import per_replica
from scalebench_worker.tensorflow.framework import tf

PAD = 4  # pixels on each side, for the random crop of He et al. 2016, section 4.2


class Arrays:
    """Training batches of this process's replicas: gathered, augmented, normalised and resized on their devices.

    Replica r of n takes every n-th item from r on of the whole set shuffled by ``seed + epoch``, as in the torch
    program; the shuffle itself is numpy's, and so another order than torch's.
    """

    def __init__(
        self,
        strategy: Any,
        source: str,
        arrays: ImageArrays,
        *,
        batch: int,
        shape: tuple[int, ...],
        seed: int,
        first: int = 0,
        world: int | None = None,
    ) -> None:
        """``shape`` is (channels, height, width).

        Where there are more replicas, ``world``, than the strategy knows of, its own are those from ``first`` on.

        Raises:
            DataError: a shape that the set cannot be brought to, or fewer items than one global batch.
        """
        check_arrays(source, arrays, shape=shape, classes=arrays.classes)
        self._strategy, self._batch, self._seed = strategy, batch, seed
        self._first, self._world = first, world or int(strategy.num_replicas_in_sync)
        self.items = len(arrays.labels)
        self._steps = self.items // (self._world * batch)
        if self._steps == 0:
            raise DataError(
                f"{source}: {self.items} items do not fill a batch of {batch} on each of {self._world} workers"
            )
        self._augment = arrays.flips
        self._side = arrays.images.shape[2:]
        self._finish = tf.function(_finisher(arrays, shape))

    def __len__(self) -> int:
        """Steps of an epoch; a last global batch that is not full is left out."""
        return self._steps

    def epoch(self, number: int) -> Iterator[tuple[Any, Any]]:
        """Inputs (batch, height, width, channels) and labels (batch,) of one epoch, in its own order."""
        order = np.random.default_rng(self._seed + number).permutation(self.items)
        for step in range(self._steps):
            yield per_replica(self._strategy, lambda replica, at=(order, number, step): self._part(replica, *at))

    def endless(self) -> Iterator[tuple[Any, Any]]:
        """The same, epoch after epoch."""
        for number in count():
            yield from self.epoch(number)

    def _part(self, replica: int, order: NDArray[np.int64], epoch: int, step: int) -> tuple[Any, Any]:
        replica += self._first
        own = order[replica : self._steps * self._batch * self._world : self._world]
        chosen = own[step * self._batch : (step + 1) * self._batch]
        height, width = self._side
        rows, columns = np.tile(np.arange(height), (self._batch, 1)), np.tile(np.arange(width), (self._batch, 1))
        if self._augment:
            random = np.random.default_rng((self._seed, replica, epoch, step))
            rows = rows + random.integers(2 * PAD + 1, size=(self._batch, 1))
            columns = columns + random.integers(2 * PAD + 1, size=(self._batch, 1))
            mirrored = random.random((self._batch, 1)) < 0.5
            columns = np.where(mirrored, columns[:, ::-1], columns)
        else:
            rows, columns = rows + PAD, columns + PAD
        made: tuple[Any, Any] = self._finish(chosen, rows, columns)
        return made


def in_order(arrays: ImageArrays, shape: tuple[int, ...], batch: int) -> Iterator[tuple[Any, Any]]:
    """Every item of a set once, as it is but for its form: the last batch is what is left."""
    finish = tf.function(_finisher(arrays, shape), reduce_retracing=True)
    height, width = arrays.images.shape[2:]
    for first in range(0, len(arrays.labels), batch):
        chosen = np.arange(first, min(first + batch, len(arrays.labels)))
        rows, columns = (np.tile(np.arange(side) + PAD, (len(chosen), 1)) for side in (height, width))
        yield finish(chosen, rows, columns)


def _finisher(arrays: ImageArrays, shape: tuple[int, ...]) -> Any:
    """(items, rows, columns of the padded image) -> inputs and labels."""
    images = np.pad(arrays.images.transpose(0, 2, 3, 1), ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    mean, deviation = np.array(arrays.mean, np.float32), np.array(arrays.deviation, np.float32)
    channels, *size = shape
    smaller = size[0] < arrays.images.shape[2] or size[1] < arrays.images.shape[3]

    def finish(chosen: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
        x = tf.gather(tf.constant(images), chosen)
        x = tf.gather(tf.gather(x, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)
        x = (tf.cast(x, tf.float32) - mean) / deviation
        if list(x.shape[1:3]) != size:
            x = tf.image.resize(x, size, antialias=smaller)
        if x.shape[3] != channels:
            x = tf.repeat(x, channels, axis=3)
        return x, tf.gather(tf.constant(arrays.labels), chosen)

    return finish
