"""The order of a set's items: sharded over replicas in training, sequential in validation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.data.images import DataError
from scalecurve_worker.tensorflow.data.synthetic import per_replica

Items = NDArray[np.int64]
"""Numbers of items, in the order in which they are taken."""
Batch = tuple[Any, Any]
"""Inputs (batch, height, width, channels) and labels (batch,)."""


class Epochs(ABC):
    """Batches of this process's replicas, epoch after epoch, each in an order of its own.

    Replica r of n takes every n-th item from r on of the whole set shuffled by ``seed + epoch``, as in the torch
    program; the shuffle itself is numpy's, and so another order than torch's.
    """

    def __init__(
        self, strategy: Any, source: str, items: int, *, batch: int, seed: int, first: int = 0, world: int | None = None
    ) -> None:
        """Where there are more replicas, ``world``, than the strategy knows of, its own are those from ``first`` on."""
        self._strategy, self._batch, self._seed = strategy, batch, seed
        self._first, self._world = first, world or int(strategy.num_replicas_in_sync)
        self.items = items
        self._steps = items // (self._world * batch)
        if self._steps == 0:
            raise DataError(f"{source}: {items} items do not fill a batch of {batch} on each of {self._world} workers")

    def __len__(self) -> int:
        """Steps of an epoch; a last global batch that is not full is left out."""
        return self._steps

    def epoch(self, number: int) -> Iterator[Batch]:
        order = np.random.default_rng(self._seed + number).permutation(self.items)

        def part(replica: int, step: int) -> Batch:
            of = self._first + replica
            items = order[of : self._steps * self._batch * self._world : self._world]
            return self._part(of, number, step, items.reshape(self._steps, self._batch))

        for step in range(self._steps):
            yield per_replica(self._strategy, lambda replica, step=step: part(replica, step))

    def endless(self) -> Iterator[Batch]:
        for number in count():
            yield from self.epoch(number)

    @abstractmethod
    def _part(self, replica: int, epoch: int, step: int, items: Items) -> Batch:
        """One replica's batch of a step; ``items`` (steps, batch) are its items of the whole epoch."""


def in_order(items: int, batch: int, made: Callable[[Items], Batch]) -> Iterator[Batch]:
    """Every item once, as ``made`` gives it: the last batch is what is left."""
    for first in range(0, items, batch):
        yield made(np.arange(first, min(first + batch, items)))
