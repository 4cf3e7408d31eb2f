"""Random batches that live on the device: a step without input cost. Normal deviates, never zeros."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from scalecurve_worker.tensorflow.framework import tf

POOL = 4


class SyntheticReplicas:
    """A pool of batches made once and served in turn; every replica has its own."""

    def __init__(
        self, strategy: Any, *, batch: int, shape: tuple[int, ...], classes: int, seed: int, first: int = 0
    ) -> None:
        """``shape`` is (channels, height, width); ``first`` is the number of the strategy's replica 0."""
        self._pool = [
            per_replica(
                strategy, lambda replica, turn=turn: _draw(batch, shape, classes, (seed, first + replica, turn))
            )
            for turn in range(POOL)
        ]

    def endless(self) -> Iterator[tuple[Any, Any]]:
        return cycle(self._pool)


def per_replica(strategy: Any, make: Any) -> tuple[Any, Any]:
    """Inputs and labels that ``make`` gives for each replica of this process, on the replica's device."""
    devices = strategy.extended.worker_devices
    made: dict[int, tuple[Any, Any]] = {}

    def part(which: int) -> Any:
        def value(context: Any) -> Any:
            replica = int(context.replica_id_in_sync_group)
            if replica not in made:
                with tf.device(devices[replica % len(devices)]):
                    made[replica] = tuple(tf.identity(each) for each in make(replica))
            return made[replica][which]

        return value

    return tuple(strategy.experimental_distribute_values_from_function(part(which)) for which in (0, 1))


def _draw(batch: int, shape: tuple[int, ...], classes: int, words: tuple[int, ...]) -> tuple[Any, Any]:
    random = np.random.default_rng(words)
    channels, height, width = shape
    inputs = random.standard_normal((batch, height, width, channels), dtype=np.float32)
    return inputs, random.integers(classes, size=batch, dtype=np.int64)
