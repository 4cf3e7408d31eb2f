"""Images on disk, decoded batch by batch.

Decoding runs in processes of its own, so that it does not take the interpreter from the thread that launches the
step's kernels. They come from a fork server: a fork of a process with CUDA and NCCL threads may hang.
"""

import os
from collections.abc import Iterator, Sequence
from multiprocessing import parent_process
from threading import Thread

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import multiprocessing as torch_multiprocessing
from torch.utils.data import DataLoader, Dataset, Sampler

from scalecurve_worker.data.decoding import DEVIATION, MEAN, open_picture, pixels_of
from scalecurve_worker.data.image_list import ImageList
from scalecurve_worker.data.images import DataError
from scalecurve_worker.torch.data.augment import Augment, Draws
from scalecurve_worker.torch.data.loader import Batch, BatchFormat, DataSpec, Loader, Normaliser
from scalecurve_worker.torch.data.sampler import DataShard, epoch_order

MOST_LOADERS = 8
BATCHES_AHEAD = 2  # of each decoding process


class ImageDecoder(Dataset[tuple[Tensor, int] | str]):
    """(index, epoch) -> bytes (instances, height, width, channels) and label, or the message of what is wrong.

    A message rather than an exception: one raised in a decoding process arrives with that process's traceback. A file
    is decoded once, and cropped anew for each instance.
    """

    def __init__(
        self, images: ImageList, shape: tuple[int, ...], *, augment: bool, seed: int, instances: int = 1
    ) -> None:
        self.images = images
        self.shape = shape
        self.augment = augment
        self.seed = seed
        self.instances = instances

    def __getitem__(self, where: tuple[int, int]) -> tuple[Tensor, int] | str:
        index, epoch = where
        # By item, not by process or worker: the picture is the same whoever decodes it.
        random = np.random.default_rng((self.seed, epoch, index)) if self.augment else None
        try:
            picture = open_picture(self.images.file(index), self.shape[0])
        except DataError as error:
            return str(error)
        pixels = np.stack([pixels_of(picture, self.shape, random) for _ in range(self.instances)])
        return torch.from_numpy(pixels), int(self.images.labels[index])


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
        return self.decoder.images.class_names

    def labels_of_all(self) -> NDArray[np.int64]:
        return self.decoder.images.labels

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
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
