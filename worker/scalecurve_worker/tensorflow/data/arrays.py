"""Small image sets, kept on the devices as bytes and turned into batches there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scalecurve_worker.data.images import ImageArrays, check_arrays
from scalecurve_worker.tensorflow.data.sampler import Batch, Epochs, Items
from scalecurve_worker.tensorflow.framework import tf

PAD = 4  # pixels on each side, for the random crop of He et al. 2016, section 4.2


class ArrayEpochs(Epochs):
    """Training batches of this process's replicas: gathered, augmented, normalised and resized on their devices."""

    def __init__(
        self, strategy: Any, source: str, arrays: ImageArrays, *, shape: tuple[int, ...], **order: Any
    ) -> None:
        """``shape`` is (channels, height, width); ``order`` is for ``Epochs``."""
        check_arrays(source, arrays, shape=shape, classes=arrays.classes)
        super().__init__(strategy, source, len(arrays.labels), **order)
        self._augment = arrays.flips
        self._side = arrays.images.shape[2:]
        self._finish = tf.function(_finisher(arrays, shape))

    def _part(self, replica: int, epoch: int, step: int, items: Items) -> Batch:
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
        made: Batch = self._finish(items[step], rows, columns)
        return made


def as_they_are(arrays: ImageArrays, shape: tuple[int, ...]) -> Callable[[Items], Batch]:
    """Items -> the batch of them, as they are but for their form."""
    finish = tf.function(_finisher(arrays, shape), reduce_retracing=True)
    sides = arrays.images.shape[2:]

    def made(items: Items) -> Batch:
        rows, columns = (np.tile(np.arange(side) + PAD, (len(items), 1)) for side in sides)
        batch: Batch = finish(items, rows, columns)
        return batch

    return made


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
