"""Images on disk, decoded batch by batch.

Decoding runs in processes of its own, so that it does not take the interpreter from the thread that launches the
step's kernels. They come from a fork server: a fork of a process with CUDA and NCCL threads may hang.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import multiprocessing as torch_multiprocessing
from torch.utils.data import DataLoader, Dataset, Sampler

from scalecurve_worker.data.crops import middle_crop, random_crop
from scalecurve_worker.data.image_list import ImageList, list_images
from scalecurve_worker.data.images import DataError, Split
from scalecurve_worker.torch.data.augment import Augment, Draws
from scalecurve_worker.torch.data.loader import Batch, DataSpec, Loader
from scalecurve_worker.torch.data.memory_format import BatchFormat, Normaliser
from scalecurve_worker.torch.data.sampler import DataShard, epoch_order

MOST_LOADERS = 8
BATCHES_AHEAD = 2  # of each decoding process

# Mean and deviation over ImageNet's training images, as printed by torchvision; for grey, their means.
MEAN = {1: (0.449,), 3: (0.485, 0.456, 0.406)}
DEVIATION = {1: (0.226,), 3: (0.229, 0.224, 0.225)}


class ImageDecoder(Dataset[tuple[Tensor, int] | str]):
    """(index, epoch) -> bytes (instances, height, width, channels) and label, or the message of what is wrong.

    A message rather than an exception: one raised in a decoding process arrives with that process's traceback. A file
    is decoded once, and cropped anew for each instance.
    """

    def __init__(
        self, images: ImageList, shape: tuple[int, ...], *, augment: bool, seed: int, instances: int = 1
    ) -> None:
        self.images = images
        self.channels, self.height, self.width = shape
        self.augment = augment
        self.seed = seed
        self.instances = instances

    def __getitem__(self, where: tuple[int, int]) -> tuple[Tensor, int] | str:
        from PIL.Image import DecompressionBombError

        index, epoch = where
        file = self.images.file(index)
        # By item, not by process or worker: the picture is the same whoever decodes it.
        random = np.random.default_rng((self.seed, epoch, index))
        try:
            pixels = self._pixels(file, random)
        except (OSError, SyntaxError, ValueError, EOFError, struct.error, DecompressionBombError) as error:
            return f"{file}: cannot be decoded: {error}"
        return torch.from_numpy(pixels), int(self.images.labels[index])

    def _pixels(self, file: Path, random: np.random.Generator) -> NDArray[np.uint8]:
        from PIL import Image

        with Image.open(file) as image:
            picture = image.convert("RGB" if self.channels == 3 else "L")
        return np.stack([self._instance(picture, random) for _ in range(self.instances)])

    def _instance(self, picture: Any, random: np.random.Generator) -> NDArray[np.uint8]:
        from PIL import Image

        wanted = (self.width, self.height)
        box = random_crop(picture.size, random) if self.augment else middle_crop(picture.size, wanted)
        picture = picture.resize(wanted, Image.Resampling.BILINEAR, box=box)
        if self.augment and random.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.array(picture, np.uint8).reshape(self.height, self.width, self.channels)


def _stack(items: list[tuple[Tensor, int] | str]) -> tuple[Tensor, Tensor] | str:
    """Bytes (instances x batch, height, width, channels), the whole batch once after another, and labels."""
    images, labels = [], []
    for item in items:
        if isinstance(item, str):
            return item
        images.append(item[0])
        labels.append(item[1])
    return torch.stack(images, dim=1).flatten(0, 1), torch.tensor(labels).repeat(len(images[0]))


class _EpochBatches(Sampler[list[tuple[int, int]]]):
    """The (index, epoch) pairs of each batch of one worker, in the epoch that was set last."""

    def __init__(self, spec: DataSpec, shard: DataShard) -> None:
        self.spec, self.shard = spec, shard
        self.epoch = 0

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, batch = self.epoch, self.spec.batch
        order = epoch_order(self.spec, self.shard, epoch).tolist()
        for step in range(self.spec.steps):
            yield [(index, epoch) for index in order[step * batch : (step + 1) * batch]]


class ImageFolder(Loader):
    """Batches decoded ahead in ``loaders`` other processes, normalised on the device."""

    def __init__(
        self,
        spec: DataSpec,
        images: ImageList,
        shard: DataShard,
        form: BatchFormat,
        *,
        moves: bool,
        augment: Augment,
        loaders: int | None,
    ) -> None:
        """``moves``: crop and mirror at random; of ``augment`` come the rest, cutout and instances."""
        super().__init__(spec)
        self.form = form
        self.shard = shard
        self.augment = augment
        channels = spec.shape[0]
        self.normalise = Normaliser(
            [255 * mean for mean in MEAN[channels]],
            [255 * deviation for deviation in DEVIATION[channels]],
            form.device,
        )
        self._order = _EpochBatches(spec, shard)
        self.decoder = ImageDecoder(images, spec.shape, augment=moves, seed=shard.seed, instances=augment.instances)
        self._decoded = _decoding(
            self.decoder,
            self._order,
            loaders=min(MOST_LOADERS, len(os.sched_getaffinity(0))) if loaders is None else loaders,
            pin=form.device.type == "cuda",
        )

    def _batches(self, epoch: int) -> Iterator[Batch]:
        self._order.epoch = epoch
        draws = Draws(self.augment, self.shard, epoch, self.form.device)
        for decoded in self._decoded:
            if isinstance(decoded, str):
                raise DataError(decoded)
            images, labels = decoded
            images = images.to(self.form.device, non_blocking=True).permute(0, 3, 1, 2)
            x = draws.cut(self.form.lay(self.normalise(images)))
            yield x, labels.to(self.form.device, non_blocking=True)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the folders."""
        return self.decoder.images.class_names

    def labels_of_all(self) -> NDArray[np.int64]:
        """Of the whole split."""
        return self.decoder.images.labels

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The middle of each picture, and as it is trained on in the first epoch."""
        decoder, shape = self.decoder, self.spec.shape
        plain = ImageDecoder(decoder.images, shape, augment=False, seed=decoder.seed)
        trained = ImageDecoder(decoder.images, shape, augment=decoder.augment, seed=decoder.seed)
        stored, moved = (self._decode(each, items) for each in (plain, trained))
        draws = Draws(self.augment, self.shard, 0, self.form.device)
        return stored / 255, self.normalise.undo(draws.cut(self.normalise(moved))) / 255

    def _decode(self, decoder: ImageDecoder, items: Sequence[int]) -> Tensor:
        decoded = _stack([decoder[item, 0] for item in items])
        if isinstance(decoded, str):
            raise DataError(decoded)
        return decoded[0].to(self.form.device).permute(0, 3, 1, 2)

    def close(self) -> None:
        """End the decoding processes."""
        super().close()
        del self._decoded


def _decoding(
    decoder: ImageDecoder, order: _EpochBatches, *, loaders: int, pin: bool
) -> DataLoader[tuple[Tensor, int] | str]:
    if loaders == 0:
        return DataLoader(decoder, batch_sampler=order, collate_fn=_stack, pin_memory=pin)
    context = torch_multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imports torch once, not in every process
    return DataLoader(
        decoder,
        batch_sampler=order,
        collate_fn=_stack,
        pin_memory=pin,
        num_workers=loaders,
        multiprocessing_context=context,
        worker_init_fn=_end_with_the_worker,
        prefetch_factor=BATCHES_AHEAD,
        persistent_workers=True,
    )


def _end_with_the_worker(_: int) -> None:
    """Let a decoding process end when its worker is gone, even killed.

    torch watches the parent process, which is the fork server here; and the server lives as long as its children.
    """
    worker = parent_process()
    assert worker is not None

    def watch() -> None:
        worker.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def open_image_list(
    path: Path,
    split: Split,
    *,
    shape: tuple[int, ...],
    classes: int | None,
    validation: float | None = None,
    split_seed: int = 0,
) -> ImageList:
    """List a folder and refuse what it cannot give.

    Raises:
        DataError: no Pillow, a wrong layout, a shape that is no grey or colour image, more classes than asked.
    """
    if find_spec("PIL") is None:
        raise DataError("image-folder: Pillow is not installed; it decodes the images (pip install pillow)")
    if len(shape) != 3 or shape[0] not in MEAN:
        raise DataError(f"image-folder: shape {list(shape)}: [1 or 3, height, width] is wanted")
    images = list_images(path, split, validation=validation, split_seed=split_seed)
    if classes is not None and classes < images.classes:
        folder = path if validation is not None else path / "train"
        raise DataError(f"{folder}: classes {classes}: there are {images.classes} class folders")
    return images
