"""Bytes that fake tensors would take: storages that are alive, with the highest sum."""

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class Allocation:
    """Every storage that it was shown, until its last tensor is gone."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._sizes: dict[int, int] = {}

    def hold(self, tensor: Tensor) -> None:
        """Count the tensor's storage, once."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._sizes:
            return
        self._sizes[key] = 0
        self._set(key, storage.nbytes())
        weakref.finalize(storage, self._forget, key)

    def hold_all(self, tensors: Iterable[Tensor]) -> int:
        """The same of each; their bytes, shared storages once."""
        storages = {}
        for tensor in tensors:
            self.hold(tensor)
            storages[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return sum(storages.values())

    def begin(self) -> None:
        """The highest point is that from now on."""
        self.peak = self.now

    @contextmanager
    def resizing(self) -> Iterator[None]:
        """Follow storages that are emptied and filled again, as FSDP does with gathered parameters."""
        resize = torch.UntypedStorage.resize_

        def followed(storage: Any, size: int) -> Any:
            out = resize(storage, size)
            if storage._cdata in self._sizes:
                self._set(storage._cdata, size)
            return out

        torch.UntypedStorage.resize_ = followed  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]

    def _set(self, key: int, size: int) -> None:
        self.now += size - self._sizes[key]
        self._sizes[key] = size
        self.peak = max(self.peak, self.now)

    def _forget(self, key: int) -> None:
        self.now -= self._sizes.pop(key)
