"""Images on disk as ``<path>/{train,val}/<class>/<file>``, the usual layout of ImageNet.

Decoding runs in processes of its own, so that it does not take the interpreter from the thread that launches the
step's kernels. They come from a fork server: a fork of a process with CUDA and NCCL threads may hang.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import multiprocessing as torch_multiprocessing
from torch.utils.data import DataLoader, Dataset, Sampler

from scalebench_worker.data.images import DataError, Split
from scalebench_worker.torch.data.crops import middle_crop, random_crop
from scalebench_worker.torch.data.form import Form, Normaliser
from scalebench_worker.torch.data.loader import Batch, DataSpec, Loader
from scalebench_worker.torch.data.order import Shard, epoch_order

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp")
MOST_LOADERS = 8
BATCHES_AHEAD = 2  # of each decoding process

# Mean and deviation over ImageNet's training images, as printed by torchvision; for grey, their means.
MEAN = {1: (0.449,), 3: (0.485, 0.456, 0.406)}
DEVIATION = {1: (0.226,), 3: (0.229, 0.224, 0.225)}


class ImageList:
    """The files of one split and their class numbers; classes are numbered by the sorted folders of ``train``."""

    def __init__(self, path: Path, split: Split) -> None:
        """List the files.

        Raises:
            DataError: a folder is absent or empty, or ``val`` has a class that ``train`` has not.
        """
        classes = _subfolders(path / "train", path)
        self.folder = path / split
        own = classes if split == "train" else _subfolders(self.folder, path)
        strangers = sorted(set(own) - set(classes))
        if strangers:
            raise DataError(f"{self.folder / strangers[0]}: {path / 'train'} has no class of that name")
        numbers = {name: number for number, name in enumerate(classes)}
        names, labels = [], []
        for name in own:
            with os.scandir(self.folder / name) as entries:
                files = sorted(entry.name for entry in entries if _is_image(entry))
            if not files:
                raise DataError(f"{self.folder / name}: holds no image ({', '.join(ENDINGS)})")
            names += [os.fsencode(f"{name}/{file}") for file in files]
            labels += [numbers[name]] * len(files)
        self.classes = len(classes)
        # Arrays, as a list of a million names is slow to send to every decoding process.
        self.names: NDArray[np.bytes_] = np.array(names)
        self.labels: NDArray[np.int64] = np.array(labels, np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def file(self, index: int) -> Path:
        """Path of one image."""
        return self.folder / os.fsdecode(bytes(self.names[index]))


def _subfolders(folder: Path, path: Path) -> list[str]:
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; image-folder reads {path}/{{train,val}}/<class>/<image>")
    with os.scandir(folder) as entries:
        found = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if not found:
        raise DataError(f"{folder}: holds no class folders")
    return found


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(ENDINGS) and not entry.name.startswith(".") and entry.is_file()


class Decoder(Dataset[tuple[Tensor, int] | str]):
    """(index, epoch) -> bytes (height, width, channels) and label, or the message of what is wrong with a file.

    A message rather than an exception: one raised in a decoding process arrives with that process's traceback.
    """

    def __init__(self, images: ImageList, shape: tuple[int, ...], *, augment: bool, seed: int) -> None:
        self.images = images
        self.channels, self.height, self.width = shape
        self.augment = augment
        self.seed = seed

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
        wanted = (self.width, self.height)
        box = random_crop(picture.size, random) if self.augment else middle_crop(picture.size, wanted)
        picture = picture.resize(wanted, Image.Resampling.BILINEAR, box=box)
        if self.augment and random.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.array(picture, np.uint8).reshape(self.height, self.width, self.channels)


def _stack(items: list[tuple[Tensor, int] | str]) -> tuple[Tensor, Tensor] | str:
    images, labels = [], []
    for item in items:
        if isinstance(item, str):
            return item
        images.append(item[0])
        labels.append(item[1])
    return torch.stack(images), torch.tensor(labels)


class _EpochBatches(Sampler[list[tuple[int, int]]]):
    """The (index, epoch) pairs of each batch of one worker, in the epoch that was set last."""

    def __init__(self, spec: DataSpec, shard: Shard) -> None:
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
        shard: Shard,
        form: Form,
        *,
        augment: bool,
        loaders: int | None,
    ) -> None:
        super().__init__(spec)
        self.form = form
        channels = spec.shape[0]
        self.normalise = Normaliser(
            [255 * mean for mean in MEAN[channels]],
            [255 * deviation for deviation in DEVIATION[channels]],
            form.device,
        )
        self._order = _EpochBatches(spec, shard)
        self._decoded = _decoding(
            Decoder(images, spec.shape, augment=augment and spec.split == "train", seed=shard.seed),
            self._order,
            loaders=min(MOST_LOADERS, len(os.sched_getaffinity(0))) if loaders is None else loaders,
            pin=form.device.type == "cuda",
        )

    def _batches(self, epoch: int) -> Iterator[Batch]:
        self._order.epoch = epoch
        for decoded in self._decoded:
            if isinstance(decoded, str):
                raise DataError(decoded)
            images, labels = decoded
            images = images.to(self.form.device, non_blocking=True).permute(0, 3, 1, 2)
            yield self.form.lay(self.normalise(images)), labels.to(self.form.device, non_blocking=True)

    def close(self) -> None:
        """End the decoding processes."""
        super().close()
        del self._decoded


def _decoding(
    decoder: Decoder, order: _EpochBatches, *, loaders: int, pin: bool
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


def open_image_list(path: Path, split: Split, *, shape: tuple[int, ...], classes: int | None) -> ImageList:
    """List a folder and refuse what it cannot give.

    Raises:
        DataError: no Pillow, a wrong layout, a shape that is no grey or colour image, more classes than asked.
    """
    if find_spec("PIL") is None:
        raise DataError("image-folder: Pillow is not installed; it decodes the images (pip install pillow)")
    if len(shape) != 3 or shape[0] not in MEAN:
        raise DataError(f"image-folder: shape {list(shape)}: [1 or 3, height, width] is wanted")
    images = ImageList(path, split)
    if classes is not None and classes < images.classes:
        raise DataError(f"{path / 'train'}: classes {classes}: there are {images.classes} class folders")
    return images
