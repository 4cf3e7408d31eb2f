"""The order of a set's items: sharded over replicas in training, sequential otherwise."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.training.data.images import DataError
from scalecurve_worker.training.data.order import shuffled

Items = NDArray[np.int64]  # numbers of items, in the order in which they are taken
Batch = tuple[Any, Any]  # inputs (batch, height, width, channels) and labels (batch,)


@dataclass(frozen=True)
class ReplicaShard:
    """This process's replicas among all: those from number ``first`` on of ``world``, ``batch`` items a step each.

    There may be more replicas than the strategy knows of. The seed orders the set for all of them.
    """

    strategy: Any
    batch: int
    seed: int
    first: int
    world: int


def make_replica_batches(strategy: Any, make: Callable[[int], Batch]) -> Batch:
    """Return the inputs and labels that ``make`` gives for each replica of this process, on the replica's device."""
    devices = strategy.extended.worker_devices
    made: dict[int, Batch] = {}

    def value(which: int, context: Any) -> Any:
        replica = int(context.replica_id_in_sync_group)
        if replica not in made:
            with tf.device(devices[replica % len(devices)]):
                inputs, targets = make(replica)
                made[replica] = tf.identity(inputs), tf.identity(targets)
        return made[replica][which]

    inputs, targets = (strategy.experimental_distribute_values_from_function(partial(value, which)) for which in (0, 1))
    return inputs, targets


class Epochs(ABC):
    """Batches of this process's replicas, epoch after epoch, each in an order of its own.

    Replica r of n takes every n-th item from r on of the whole set shuffled by ``seed + epoch``: the items, and their
    order, that rank r has in the torch program.
    """

    def __init__(self, shard: ReplicaShard, source: str, items: int) -> None:
        self._shard = shard
        self.items = items
        self._steps = items // (shard.world * shard.batch)
        if self._steps == 0:
            raise DataError(
                f"{source}: {items} items do not fill a batch of {shard.batch} on each of {shard.world} workers"
            )

    def __len__(self) -> int:
        """Steps of an epoch; a last global batch that is not full is dropped."""
        return self._steps

    def epoch(self, number: int) -> Iterator[Batch]:
        order, batch, world = shuffled(self.items, self._shard.seed + number), self._shard.batch, self._shard.world
        self._begin(number)

        def part(step: int, replica: int) -> Batch:
            of = self._shard.first + replica
            items = order[of : self._steps * batch * world : world]
            return self._part(of, number, step, items.reshape(self._steps, batch))

        for step in range(self._steps):
            yield make_replica_batches(self._shard.strategy, partial(part, step))

    def endless(self) -> Iterator[Batch]:
        for number in count():
            yield from self.epoch(number)

    @abstractmethod
    def _begin(self, epoch: int) -> None:
        """Draw what is drawn for a whole epoch."""

    @abstractmethod
    def _part(self, replica: int, epoch: int, step: int, items: Items) -> Batch:
        """One replica's batch of a step; ``items`` (steps, batch) are its items of the whole epoch."""


def in_order(items: int, batch: int, made: Callable[[Items], Batch]) -> Iterator[Batch]:
    """Yield every item once, in batches that ``made`` gives: the last batch is what is left."""
    for first in range(0, items, batch):
        yield made(np.arange(first, min(first + batch, items)))
