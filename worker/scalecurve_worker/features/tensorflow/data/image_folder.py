"""Images on disk, decoded ahead by threads: the same files, crops and pixels as in the torch program."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.features.tensorflow.data.augment import Augmenter
from scalecurve_worker.features.tensorflow.data.sampler import Batch, Epochs, Items, ReplicaShard
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.process.startup import allowed_cores
from scalecurve_worker.training.data.augmentation import Augment
from scalecurve_worker.training.data.decoding import DEVIATION, MEAN, TrainingDecoder
from scalecurve_worker.training.data.image_list import ImageList

MOST_THREADS = 8
BATCHES_AHEAD = 2

Pixels = NDArray[np.uint8]


class ImageFolderEpochs(Epochs):
    """Batches of this process's replicas: decoded, then warped, normalized and cut on their devices."""

    def __init__(self, shard: ReplicaShard, decoder: TrainingDecoder, augment: Augment) -> None:
        super().__init__(shard, "image-folder", len(decoder.images))
        self._labels = decoder.images.labels
        self._augmenter = Augmenter(augment, shard.seed, self.items)
        self._decoder = ThreadedDecoder(decoder)
        self._pending: dict[tuple[int, int, int], list[Future[Pixels]]] = {}

    def _begin(self, epoch: int) -> None:
        self._augmenter.begin(epoch)

    def _part(self, replica: int, epoch: int, step: int, items: Items) -> Batch:
        for ahead in range(step, min(step + BATCHES_AHEAD + 1, len(self))):
            if (epoch, ahead, replica) not in self._pending:
                self._pending[epoch, ahead, replica] = self._decoder.begin(items[ahead].tolist(), epoch)
        pixels = self._decoder.pixels(self._pending.pop((epoch, step, replica)))
        x = normalize(self._augmenter.warp(pixels, items[step]))
        labels = self._labels[self._augmenter.copies(items[step])]
        return self._augmenter.cut(x, replica, epoch, step), tf.constant(labels)


class ThreadedDecoder:
    """Threads that open, crop and scale images; Pillow lets go of the interpreter while it does."""

    def __init__(self, decoder: TrainingDecoder) -> None:
        self._decoder = decoder
        self._threads = ThreadPoolExecutor(min(MOST_THREADS, len(allowed_cores())), "decode")

    def begin(self, items: Sequence[int], epoch: int) -> list[Future[Pixels]]:
        """Start decoding."""
        return [self._threads.submit(self._decoder.pixels, item, epoch) for item in items]

    def pixels(self, begun: Sequence[Future[Pixels]]) -> Any:
        """Return bytes (instances x batch, h, w, c), the whole batch once after another, on the device."""
        decoded = np.stack([each.result() for each in begun], axis=1)
        return tf.constant(decoded.reshape(-1, *decoded.shape[2:]))


def middles(images: ImageList, shape: tuple[int, ...]) -> Callable[[Items], Batch]:
    """Return a function from items to their batch, the middle of each image."""
    decoder = ThreadedDecoder(TrainingDecoder(images, shape, Augmentation.none, seed=0))

    def batch_of(items: Items) -> Batch:
        return normalize(decoder.pixels(decoder.begin(items.tolist(), 0))), tf.constant(images.labels[items])

    return batch_of


def normalize(pixels: Any) -> Any:
    """Normalize bytes, or what they were warped to, by the mean and deviation of ImageNet, on the device."""
    channels = pixels.shape[-1]
    mean, deviation = (255 * np.array(each[channels], np.float32) for each in (MEAN, DEVIATION))
    return (tf.cast(pixels, tf.float32) - mean) / deviation
