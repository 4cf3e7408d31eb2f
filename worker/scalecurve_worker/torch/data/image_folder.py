"""Images on disk, decoded batch by batch by processes of their own."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.torch.data.loader import Batch, BatchFormat, DataShard, DataSpec, Loader, Normalizer, epoch_order
from scalecurve_worker.torch.data.reading import loader_options
from scalecurve_worker.training.data.augmentation import Augment
from scalecurve_worker.training.data.decoding import DEVIATION, MEAN, TrainingDecoder
from scalecurve_worker.training.data.images import DataError

MOST_LOADERS = 8


@dataclass(eq=False)
class ImageDecoder(Dataset[tuple[Tensor, int] | str]):
    """(index, epoch) -> bytes (instances, height, width, channels) and label, or the message of what is wrong.

    A message rather than an exception: one raised in a decoding process arrives with that process's traceback.
    """

    decoder: TrainingDecoder

    def __getitem__(self, where: tuple[int, int]) -> tuple[Tensor, int] | str:
        try:
            pixels = self.decoder.pixels(*where)
        except DataError as error:
            return str(error)
        return torch.from_numpy(pixels), int(self.decoder.images.labels[where[0]])


def _stack(items: list[tuple[Tensor, int] | str]) -> tuple[Tensor, Tensor] | str:
    """Bytes (instances x batch, height, width, channels), the whole batch once after another, and labels."""
    images, labels = [], []
    for item in items:
        if isinstance(item, str):
            return item
        images.append(item[0])
        labels.append(item[1])
    return torch.stack(images, dim=1).flatten(0, 1), torch.tensor(labels).repeat(len(images[0]))


@dataclass(eq=False)
class _EpochBatches(Sampler[list[tuple[int, int]]]):
    """The (index, epoch) pairs of each batch of one worker, in the epoch that was set last."""

    spec: DataSpec
    shard: DataShard
    epoch: int = 0

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, batch = self.epoch, self.spec.batch
        order = epoch_order(self.spec, self.shard, epoch).tolist()
        for step in range(self.spec.steps):
            yield [(index, epoch) for index in order[step * batch : (step + 1) * batch]]


class ImageFolder(Loader):
    """Batches decoded ahead in ``loaders`` other processes, normalized on the device."""

    def __init__(
        self,
        spec: DataSpec,
        shard: DataShard,
        form: BatchFormat,
        augment: Augment,
        decoder: TrainingDecoder,
        *,
        loaders: int | None,
    ) -> None:
        """``decoder`` crops and mirrors; of ``augment`` come the rest."""
        super().__init__(spec, shard, form, augment)
        self.class_names, self.labels_of_all = decoder.images.class_names, decoder.images.labels
        mean, deviation = ([255 * each for each in table[spec.shape[0]]] for table in (MEAN, DEVIATION))
        self.normalize = Normalizer(mean, deviation, form.device)
        self._order = _EpochBatches(spec, shard)
        self.decoder = decoder
        self._decoded = DataLoader(
            ImageDecoder(decoder),
            batch_sampler=self._order,
            collate_fn=_stack,
            pin_memory=form.device.type == "cuda",
            **loader_options(min(MOST_LOADERS, len(os.sched_getaffinity(0))) if loaders is None else loaders),
        )

    def _batches(self, epoch: int) -> Iterator[Batch]:
        self._order.epoch = epoch
        draws = self.draws(epoch)
        for items, decoded in zip(self._order, self._decoded, strict=True):
            if isinstance(decoded, str):
                raise DataError(decoded)
            images, labels = decoded
            images = images.to(self.form.device, non_blocking=True).permute(0, 3, 1, 2)
            images = draws.warp(images, torch.tensor([index for index, _ in items]))
            x = draws.cut(self.form.lay(self.normalize(images)))
            yield x, labels.to(self.form.device, non_blocking=True)

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
        stored = self._decode(replace(self.decoder, augmentation=Augmentation.none, instances=1), items)
        draws, moved = self.draws(0), self._decode(replace(self.decoder, instances=1), items)
        x = draws.cut(self.normalize(draws.warp(moved, torch.tensor(items))))
        return stored / 255, self.normalize.undo(x) / 255

    def _decode(self, decoder: TrainingDecoder, items: Sequence[int]) -> Tensor:
        pixels = np.concatenate([decoder.pixels(item, 0) for item in items])
        return torch.from_numpy(pixels).to(self.form.device).permute(0, 3, 1, 2)

    def close(self) -> None:
        super().close()
        del self._decoded
