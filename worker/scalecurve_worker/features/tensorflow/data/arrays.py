"""Small image sets, kept on the devices as bytes and turned into batches there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scalecurve_worker.features.tensorflow.data.augment import Augmenter
from scalecurve_worker.features.tensorflow.data.sampler import Batch, Epochs, Items, ReplicaShard
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.training.data.augmentation import Augment
from scalecurve_worker.training.data.images import ImageArrays, check_arrays


class ArrayEpochs(Epochs):
    """Training batches of this process's replicas: gathered, augmented, normalized and resized on their devices."""

    def __init__(
        self, shard: ReplicaShard, source: str, arrays: ImageArrays, augment: Augment, shape: tuple[int, ...]
    ) -> None:
        """``shape`` is (channels, height, width)."""
        check_arrays(source, arrays, shape=shape, classes=arrays.classes)
        super().__init__(shard, source, len(arrays.labels))
        self._augmenter = Augmenter(augment, shard.seed, self.items)
        self._gather, self._finish = (tf.function(each, reduce_retracing=True) for each in _stages(arrays, shape))

    def _begin(self, epoch: int) -> None:
        self._augmenter.begin(epoch)

    def _part(self, replica: int, epoch: int, step: int, items: Items) -> Batch:
        images, labels = self._gather(self._augmenter.copies(items[step]))
        moved = self._augmenter.move(images, replica, epoch, step)
        x = self._finish(self._augmenter.warp(moved, items[step]))
        return self._augmenter.cut(x, replica, epoch, step), labels


def batches_of(arrays: ImageArrays, shape: tuple[int, ...]) -> Callable[[Items], Batch]:
    """Return a function from items to their batch, unchanged."""
    gather, finish = _stages(arrays, shape)

    def batch_of(items: Any) -> Batch:
        images, labels = gather(items)
        return finish(images), labels

    made: Callable[[Items], Batch] = tf.function(batch_of, reduce_retracing=True)
    return made


def _stages(arrays: ImageArrays, shape: tuple[int, ...]) -> tuple[Callable[[Any], Batch], Callable[[Any], Any]]:
    """Items -> bytes (batch, h, w, c) and labels; bytes, or what they were warped to -> inputs."""
    images = np.ascontiguousarray(arrays.images.transpose(0, 2, 3, 1))
    mean, deviation = np.array(arrays.mean, np.float32), np.array(arrays.deviation, np.float32)
    channels, *size = shape
    smaller = size[0] < arrays.images.shape[2] or size[1] < arrays.images.shape[3]

    def gather(chosen: Any) -> Batch:
        return tf.gather(tf.constant(images), chosen), tf.gather(tf.constant(arrays.labels), chosen)

    def finish(moved: Any) -> Any:
        x = (tf.cast(moved, tf.float32) - mean) / deviation
        if list(x.shape[1:3]) != size:
            x = tf.image.resize(x, size, antialias=smaller)
        if x.shape[3] != channels:
            x = tf.repeat(x, channels, axis=3)
        return x

    return gather, finish
