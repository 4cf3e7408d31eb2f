"""The interface of every data source, and the memory format of its batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalecurve_worker.data.images import DataError, Split


@dataclass(frozen=True)
class BatchFormat:
    """Device, type and memory format of the inputs."""

    device: torch.device
    dtype: torch.dtype
    channels_last: bool

    def lay(self, x: Tensor) -> Tensor:
        """Bring inputs (batch, ...) to the type and, if they are images, the memory format; a no-op if they are."""
        x = x.to(self.dtype)
        last = self.channels_last and x.dim() == 4
        return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


class Normaliser:
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
    split: Split
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


class Loader(ABC):
    """Batches of one worker, on its device.

    ``for x, y in loader`` is one epoch, the one that :meth:`set_epoch` named last (0 before); ``loader.endless()``
    goes on from there for ever. In the train split every batch is full; in the val split every item of the set
    comes once over all workers, so that the last batch may be smaller and workers may have unequal numbers:
    evaluate with the bare module, as DDP's forward pass is a collective.
    """

    def __init__(self, spec: DataSpec) -> None:
        self.spec = spec
        self.epoch = 0
        self.closed = False

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
        """All epochs from the current one on."""
        if self.spec.steps == 0:
            raise DataError(f"{self.spec.source}: this worker has no item of the {self.spec.split} split")
        while True:
            yield from self
            self.set_epoch(self.epoch + 1)

    @property
    def class_names(self) -> tuple[str, ...]:
        return ()

    def labels_of_all(self) -> NDArray[np.int64] | None:
        return None

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Items of the split as they are stored and as a step gets them, both (items, c, h, w) from 0 to 1.

        Only where ``labels_of_all`` gives labels.
        """
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True

    @abstractmethod
    def _batches(self, epoch: int) -> Iterator[Batch]:
        """One epoch: inputs (batch, *shape) and labels (batch,), or tokens and next tokens (batch, length)."""
