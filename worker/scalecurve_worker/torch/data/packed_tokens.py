"""Sequences of packed tokens, for language models."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from scalecurve_worker.torch.data.loader import Batch, BatchFormat, DataShard, DataSpec, Loader, epoch_order
from scalecurve_worker.torch.data.reading import loader_options
from scalecurve_worker.training.data.augmentation import Augment
from scalecurve_worker.training.data.images import DataError
from scalecurve_worker.training.data.token_files import Tokens


def sequences_of(files: Sequence[Tokens], length: int) -> list[int]:
    """Count each file's sequences: each begins at the last token of the one before, which is its last target."""
    return [max(0, file.count - 1) // length for file in files]


@dataclass(eq=False)
class SequenceReader(Dataset[Tensor | str]):
    """Numbers of sequences -> tokens (sequences, length + 1), int64, or the message of what is wrong."""

    files: Sequence[Tokens]
    length: int
    vocabulary: int

    def __post_init__(self) -> None:
        self.shared = [None if file.held is None else _share_array(file.held) for file in self.files]
        self.files = [replace(file, held=None) for file in self.files]
        self.ends = list(accumulate(sequences_of(self.files, self.length)))

    def __getitem__(self, items: Sequence[int]) -> Tensor | str:
        rows = np.empty((len(items), self.length + 1), dtype=np.int64)
        places = [bisect_right(self.ends, item) for item in items]
        for place in set(places):
            own = [row for row, other in enumerate(places) if other == place]
            before = self.ends[place - 1] if place else 0
            file, held = self.files[place], self.shared[place]
            source = file if held is None else replace(file, held=held.numpy())
            rows[own] = source.take([(items[row] - before) * self.length for row in own], self.length + 1)
            if not 0 <= rows[own].min() <= rows[own].max() < self.vocabulary:
                wrong = next(token for token in rows[own].flat if not 0 <= token < self.vocabulary)
                return (
                    f"tokens: {file.path}: token {wrong}, but the vocabulary has {self.vocabulary} entries; "
                    "data.classes is its size"
                )
        return torch.from_numpy(rows)


def _share_array(held: NDArray[Any]) -> Tensor:
    """The same numbers in memory that reading processes share."""
    tensor = torch.from_numpy(held)
    untyped: Any = tensor
    untyped.share_memory_()
    return tensor


@dataclass(eq=False)
class _EpochBatches(Sampler[list[int]]):
    """The sequences of each batch of one worker, in the epoch that was set last."""

    spec: DataSpec
    shard: DataShard
    epoch: int = 0

    def __iter__(self) -> Iterator[list[int]]:
        batch = self.spec.batch
        order = epoch_order(self.spec, self.shard, self.epoch).tolist()
        for step in range(self.spec.steps):
            yield order[step * batch : (step + 1) * batch]


class PackedTokens(Loader):
    """Batches of sequences with their next tokens, read by the worker or ahead by ``loaders`` processes of its own."""

    def __init__(
        self, spec: DataSpec, shard: DataShard, form: BatchFormat, files: Sequence[Tokens], loaders: int | None
    ) -> None:
        super().__init__(spec, shard, form, Augment())
        self._order = _EpochBatches(spec, shard)
        self._read = DataLoader(
            SequenceReader(files, spec.shape[0], spec.classes),
            batch_size=None,
            sampler=self._order,
            pin_memory=form.device.type == "cuda",
            **loader_options(loaders or 0),
        )

    def _batches(self, epoch: int) -> Iterator[Batch]:
        self._order.epoch = epoch
        for rows in self._read:
            if isinstance(rows, str):
                raise DataError(rows)
            text = rows.to(self.form.device, non_blocking=True)
            yield text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def close(self) -> None:
        super().close()
        del self._read
