"""Images on disk, decoded ahead by threads: the same files, crops and pixels as in the torch program."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.data.decoding import DEVIATION, MEAN, open_picture, pixels_of
from scalecurve_worker.data.image_list import ImageList
from scalecurve_worker.process.startup import allowed_cores
from scalecurve_worker.tensorflow.data.sampler import Batch, Epochs, Items
from scalecurve_worker.tensorflow.framework import tf

MOST_THREADS = 8
BATCHES_AHEAD = 2

Pixels = NDArray[np.uint8]


class ImageFolderEpochs(Epochs):
    """Batches of this process's replicas: cropped and mirrored at random, normalised on their devices.

    An item's crop is drawn by its number, so that it is the same on whichever replica it comes.
    """

    def __init__(self, strategy: Any, images: ImageList, *, shape: tuple[int, ...], **order: Any) -> None:
        """``shape`` is (channels, height, width); ``order`` is for ``Epochs``."""
        super().__init__(strategy, "image-folder", len(images), **order)
        self._images = images
        self._decoder = ThreadedDecoder(images, shape)
        self._pending: dict[tuple[int, int, int], list[Future[Pixels]]] = {}

    def _part(self, replica: int, epoch: int, step: int, items: Items) -> Batch:
        for ahead in range(step, min(step + BATCHES_AHEAD + 1, len(self))):
            if (epoch, ahead, replica) not in self._pending:
                draws = [np.random.default_rng((self._seed, epoch, index)) for index in items[ahead].tolist()]
                self._pending[epoch, ahead, replica] = self._decoder.begin(items[ahead].tolist(), draws)
        pixels = np.stack([each.result() for each in self._pending.pop((epoch, step, replica))])
        return normalised(pixels), tf.constant(self._images.labels[items[step]])


class ThreadedDecoder:
    """Threads that open, crop and scale images; Pillow lets go of the interpreter while it does."""

    def __init__(self, images: ImageList, shape: tuple[int, ...]) -> None:
        self._images, self._shape = images, shape
        self._threads = ThreadPoolExecutor(min(MOST_THREADS, len(allowed_cores())), "decode")

    def begin(self, items: Sequence[int], draws: Sequence[np.random.Generator | None]) -> list[Future[Pixels]]:
        """Start decoding; without a generator the middle of an image is taken."""
        return [self._threads.submit(self._pixels, *each) for each in zip(items, draws, strict=True)]

    def _pixels(self, index: int, random: np.random.Generator | None) -> Pixels:
        return pixels_of(open_picture(self._images.file(index), self._shape[0]), self._shape, random)


def middles(images: ImageList, shape: tuple[int, ...]) -> Callable[[Items], Batch]:
    """Items -> the batch of them, the middle of each image."""
    decoder = ThreadedDecoder(images, shape)

    def made(items: Items) -> Batch:
        pixels = np.stack([each.result() for each in decoder.begin(items.tolist(), [None] * len(items))])
        return normalised(pixels), tf.constant(images.labels[items])

    return made


def normalised(pixels: Pixels) -> Any:
    """Bytes to the mean and deviation of ImageNet, on the device."""
    channels = pixels.shape[-1]
    mean, deviation = (255 * np.array(each[channels], np.float32) for each in (MEAN, DEVIATION))
    return (tf.cast(tf.constant(pixels), tf.float32) - mean) / deviation
