"""The interface of every data source: which items a worker reads, in what order, and the format of its batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalecurve_api.record.facts.dataset import LabelFacts
from scalecurve_worker.torch.data.augment import Draws
from scalecurve_worker.training.data.augmentation import Augment
from scalecurve_worker.training.data.images import DataError, FolderSplit


@dataclass(frozen=True)
class BatchFormat:
    """Device and memory format of the inputs."""

    device: torch.device
    channels_last: bool

    def lay(self, x: Tensor) -> Tensor:
        """Bring inputs (batch, ...) to the memory format, if they are images; a no-op if they are in it."""
        last = self.channels_last and x.dim() == 4
        return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


class Normalizer:
    """(bytes - mean) / deviation by channel, as fp32, on a device; both on the scale of the bytes."""

    def __init__(self, mean: Sequence[float], deviation: Sequence[float], device: torch.device) -> None:
        self.mean = torch.tensor(mean, device=device).view(1, -1, 1, 1)
        self.scale = 1 / torch.tensor(deviation, device=device).view(1, -1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        return images.float().sub_(self.mean).mul_(self.scale)

    def undo(self, x: Tensor) -> Tensor:
        return x.float() / self.scale + self.mean


Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class DataSpec:
    """What is known about a source before the first batch.

    ``shape`` is one item without the batch; ``items`` is the size of the split over all workers, ``batch`` the
    items of one step of one worker, ``steps`` the batches of one worker in an epoch. An item counts as
    ``samples_per_item`` samples: 1, or its length in tokens.
    """

    source: str
    split: FolderSplit
    shape: tuple[int, ...]
    classes: int
    items: int
    batch: int
    steps: int
    samples_per_item: int = 1

    @property
    def samples(self) -> int:
        return self.items * self.samples_per_item

    @property
    def samples_per_step(self) -> int:
        return self.batch * self.samples_per_item


@dataclass(frozen=True)
class DataShard:
    """The place of one worker among all, and the seed that orders the set for all of them."""

    rank: int
    world: int
    seed: int


def steps_per_epoch(items: int, *, batch: int, split: FolderSplit, shard: DataShard) -> int:
    """Count the batches of one worker: full ones alone in training, all that is there otherwise."""
    if split != "train":
        items_here = len(range(shard.rank, items, shard.world))
        return -(-items_here // batch)
    steps = items // (shard.world * batch)
    if steps == 0:
        raise DataError(f"{items} items do not fill one batch of {batch} on each of {shard.world} workers")
    return steps


def epoch_order(spec: DataSpec, shard: DataShard, epoch: int) -> Tensor:
    """Return the item numbers of one worker in one epoch, int64, on the CPU.

    Training: the whole set shuffled by ``seed + epoch``, every ``world``-th from ``rank`` on, the tail that fills
    no batch dropped. That is what ``DistributedSampler(drop_last=True)`` gives, and step k consumes the same
    global batch whatever the number of workers. Validation: in the order of the set, none twice, none skipped.
    """
    if spec.split != "train":
        return torch.arange(spec.items)[shard.rank :: shard.world]
    generator = torch.Generator().manual_seed(shard.seed + epoch)
    used = spec.steps * spec.batch * shard.world
    return torch.randperm(spec.items, generator=generator)[shard.rank : used : shard.world]


class Loader(ABC):
    """Batches of one worker, on its device.

    ``for x, y in loader`` is one epoch, the one that :meth:`set_epoch` named last (0 before); ``loader.endless()``
    goes on from there for ever. In the train split every batch is full; in any other every item of the set
    comes once over all workers, so that the last batch may be smaller and workers may have unequal numbers:
    evaluate with the bare module, as DDP's forward pass is a collective.
    """

    class_names: tuple[str, ...] = ()
    labels_of_all: NDArray[np.int64] | None = None
    label_facts: LabelFacts | None = None

    def __init__(self, spec: DataSpec, shard: DataShard, form: BatchFormat, augment: Augment) -> None:
        self.spec, self.shard, self.form, self.augment = spec, shard, form, augment
        self.epoch = 0
        self.closed = False

    def draws(self, epoch: int) -> Draws:
        shard, items = self.shard, self.spec.items
        return Draws(self.augment, seed=shard.seed, rank=shard.rank, epoch=epoch, items=items, device=self.form.device)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration; it decides the order and the augmentation."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.spec.steps

    def __iter__(self) -> Iterator[Batch]:
        if self.closed:
            raise DataError(f"{self.spec.source}: this loader was closed")
        return self._batches(self.epoch)

    def endless(self) -> Iterator[Batch]:
        if self.spec.steps == 0:
            raise DataError(f"{self.spec.source}: this worker has no item of the {self.spec.split} split")
        while True:
            yield from self
            self.set_epoch(self.epoch + 1)

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return items of the split as they are stored and as a step gets them, both (items, c, h, w) from 0 to 1.

        Only where there are ``labels_of_all``.
        """
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True

    @abstractmethod
    def _batches(self, epoch: int) -> Iterator[Batch]:
        """One epoch: inputs (batch, *shape) and labels (batch,), or tokens and next tokens (batch, length)."""
