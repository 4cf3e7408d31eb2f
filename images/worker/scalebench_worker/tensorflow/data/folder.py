"""Images on disk, decoded ahead by threads: the same files, crops and pixels as in the torch program."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalebench_worker.data.crops import middle_crop, random_crop
from scalebench_worker.data.image_list import ImageList, list_images
from scalebench_worker.data.images import DataError, Split
from scalebench_worker.startup import allowed_cores
from scalebench_worker.tensorflow.data.synthetic import per_replica
from scalebench_worker.tensorflow.framework import tf

MOST_THREADS = 8
BATCHES_AHEAD = 2

# As in the torch program: over ImageNet's training images; for grey, their means.
MEAN = {1: (0.449,), 3: (0.485, 0.456, 0.406)}
DEVIATION = {1: (0.226,), 3: (0.229, 0.224, 0.225)}

Pixels = NDArray[np.uint8]


def open_folder(path: Path, split: Split, *, shape: tuple[int, ...], classes: int | None) -> ImageList:
    """The images of ``<path>/{train,val}/<class>/<image>``.

    Raises:
        DataError: no Pillow, a wrong layout, a shape that is no grey or colour image, more classes than asked.
    """
    if find_spec("PIL") is None:
        raise DataError("image-folder: Pillow is not installed; it decodes the images (pip install pillow)")
    if len(shape) != 3 or shape[0] not in MEAN:
        raise DataError(f"image-folder: shape {list(shape)}: [1 or 3, height, width] is wanted")
    images = list_images(path, split)
    if classes is not None and classes < images.classes:
        raise DataError(f"image-folder: classes {classes}: {path} has {images.classes}")
    return images


class Folder:
    """Batches of this process's replicas: cropped and mirrored at random, normalised on their devices.

    Replica r of n takes every n-th image from r on of the whole set shuffled by ``seed + epoch``; an item's crop is
    drawn by its number, so that it is the same on whichever replica it comes.
    """

    def __init__(
        self,
        strategy: Any,
        images: ImageList,
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
            DataError: fewer images than one global batch.
        """
        self._strategy, self._images, self._batch, self._shape, self._seed = strategy, images, batch, shape, seed
        self._first, self._world = first, world or int(strategy.num_replicas_in_sync)
        self.items = len(images)
        self._steps = self.items // (self._world * batch)
        if self._steps == 0:
            raise DataError(
                f"image-folder: {self.items} images do not fill a batch of {batch} on each of {self._world} workers"
            )
        self._decoder = Decoder(images, shape)
        self._pending: dict[tuple[int, int, int], list[Future[Pixels]]] = {}

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
        own = order[replica : self._steps * self._batch * self._world : self._world].reshape(self._steps, self._batch)
        for ahead in range(step, min(step + BATCHES_AHEAD + 1, self._steps)):
            if (epoch, ahead, replica) not in self._pending:
                draws = [np.random.default_rng((self._seed, epoch, index)) for index in own[ahead].tolist()]
                self._pending[epoch, ahead, replica] = self._decoder.begin(own[ahead].tolist(), draws)
        found = np.stack([each.result() for each in self._pending.pop((epoch, step, replica))])
        return normalised(found), tf.constant(self._images.labels[own[step]])


class Decoder:
    """Threads that open, crop and scale images; Pillow lets go of the interpreter while it does."""

    def __init__(self, images: ImageList, shape: tuple[int, ...]) -> None:
        self._images, self._shape = images, shape
        self._threads = ThreadPoolExecutor(min(MOST_THREADS, len(allowed_cores())), "decode")

    def begin(self, items: Sequence[int], draws: Sequence[np.random.Generator | None]) -> list[Future[Pixels]]:
        """Start decoding; without a generator the middle of an image is taken."""
        return [self._threads.submit(self._pixels, *each) for each in zip(items, draws, strict=True)]

    def _pixels(self, index: int, random: np.random.Generator | None) -> Pixels:
        from PIL import Image

        file = self._images.file(index)
        channels, height, width = self._shape
        try:
            with Image.open(file) as image:
                picture = image.convert("RGB" if channels == 3 else "L")
        except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
            raise DataError(f"{file}: cannot be decoded: {error}") from error
        box = middle_crop(picture.size, (width, height)) if random is None else random_crop(picture.size, random)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR, box=box)
        if random is not None and random.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.array(picture, np.uint8).reshape(height, width, channels)


def in_order(images: ImageList, shape: tuple[int, ...], batch: int) -> Iterator[tuple[Any, Any]]:
    """The middle of every image once; the last batch is what is left."""
    decoder = Decoder(images, shape)
    for first in range(0, len(images), batch):
        items = list(range(first, min(first + batch, len(images))))
        found = np.stack([each.result() for each in decoder.begin(items, [None] * len(items))])
        yield normalised(found), tf.constant(images.labels[items])


def normalised(found: Pixels) -> Any:
    """Bytes to the mean and deviation of ImageNet, on the device."""
    channels = found.shape[-1]
    mean, deviation = (255 * np.array(each[channels], np.float32) for each in (MEAN, DEVIATION))
    return (tf.cast(tf.constant(found), tf.float32) - mean) / deviation
