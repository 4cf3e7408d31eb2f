"""Batches of anyone's loader: how long the program waits for them, and how many samples they have."""

import math
import time
from collections.abc import Mapping
from typing import Any, Protocol


class Watcher(Protocol):
    """What is told when a section of a step begins and ends."""

    def enter(self, name: str) -> None:
        """Begin a section of this name."""

    def leave(self) -> None:
        """End the innermost section."""


class LoaderTime:
    """Nanoseconds in which the program waited for batches; a context manager around each wait."""

    def __init__(self) -> None:
        self.ns = 0
        self.watcher: Watcher | None = None
        self._depth = 0
        self._began = 0

    def __enter__(self) -> None:
        # A loader may be made of loaders: the outermost counts.
        self._depth += 1
        if self._depth == 1:
            if self.watcher is not None:
                self.watcher.enter("input")
            self._began = time.monotonic_ns()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.ns += time.monotonic_ns() - self._began
            if self.watcher is not None:
                self.watcher.leave()


def batch_size(batch: Any, planned: int | None = None) -> int | None:
    """Return the first dimension of a tensor, or of all tensors in a tuple, list or dict; the length of a plain list.

    Returns None where nothing in it has a size. Nothing is guessed: ``planned`` is what the experiment expects.

    Raises:
        ValueError: the batch may have several sizes.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        size, others = (int(shape[0]) if len(shape) else None), [int(each) for each in shape[1:]]
    else:
        size, others = _container_size(batch)
    if planned is not None and size not in (None, planned) and planned in others:
        raise _unclear(
            batch, f"its first dimension is {size}, but {planned} samples are planned and {planned} is another"
        )
    return size


def batch_tokens(batch: Any) -> int | None:
    """Count the elements of the first integer tensor with at least two dimensions (samples, positions), with padding.

    In a mapping ``input_ids`` comes first. Returns None where there is no such tensor.
    """
    if isinstance(batch, Mapping):
        batch = [batch["input_ids"]] if "input_ids" in batch else list(batch.values())
    for value in batch if isinstance(batch, list | tuple) else [batch]:
        shape, kind = getattr(value, "shape", ()), str(getattr(value, "dtype", ""))
        if len(shape) > 1 and "int" in kind:
            return math.prod(int(each) for each in shape)
    return None


def elements_of(batch: Any) -> int:
    """Count the elements of all tensors and arrays in a batch, however they are nested."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return math.prod(map(int, shape))
    if isinstance(batch, Mapping):
        batch = batch.values()
    elif not isinstance(batch, list | tuple):
        return 0
    return sum(map(elements_of, batch))


def _container_size(batch: Any) -> tuple[int | None, list[int]]:
    """The size of a tuple, list or mapping, and other numbers that could be it."""
    if not isinstance(batch, list | tuple | Mapping) or not batch:
        return None, []
    values = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
    shapes = [value.shape for value in values if len(getattr(value, "shape", ()))]
    lists = [value for value in values if isinstance(value, list | tuple | Mapping)]
    if any(isinstance(value, Mapping) or not all(map(_plain, value)) for value in lists):
        raise _unclear(batch, "it has lists or mappings inside")
    sizes = {int(shape[0]) for shape in shapes} | {len(value) for value in lists}
    if len(sizes) > 1:
        raise _unclear(batch, f"its parts begin with {', '.join(map(str, sorted(sizes)))}")
    if sizes:
        return sizes.pop(), [int(each) for shape in shapes for each in shape[1:]] + [len(values)]
    return (None if isinstance(batch, Mapping) else len(values)), []


def _plain(value: object) -> bool:
    return isinstance(value, str | bytes | int | float)


def _unclear(batch: object, why: str) -> ValueError:
    return ValueError(
        f"bench.steps: the number of samples in a batch of type {type(batch).__name__} is not clear ({why}); "
        "pass it: bench.steps(loader, samples=...)"
    )
