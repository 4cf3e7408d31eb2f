"""Ranks of a torch.distributed group that meet in its key-value store.

Barriers and small objects go through the store and not through a collective: nothing is queued on a device, no
second communicator is built, and a program's own NCCL work stays as it was.
"""

import itertools
import json
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed import distributed_c10d

_PATIENCE = timedelta(hours=1)
# The TCP store refuses values above 8 MiB.
_PIECE = 1 << 20
_made = itertools.count()


def is_initialized() -> bool:
    """Return whether the program has joined a torch.distributed group."""
    return dist.is_available() and dist.is_initialized()


def backend_for(device: torch.device) -> str | None:
    """Return the library that carries collectives of a device's tensors; None outside of a group.

    A group made without naming one has several, as ``cpu:gloo,cuda:nccl``.
    """
    if not is_initialized():
        return None
    pairs = (part.partition(":") for part in str(dist.get_backend_config()).split(","))
    return {kind: library for kind, _, library in pairs}.get(device.type)


class TorchCommunicator:
    """The default group's ranks; its store must be one, as torchrun's TCP store is."""

    def __init__(self) -> None:
        self.rank: int = dist.get_rank()
        self.world: int = dist.get_world_size()
        self.backend: str | None = str(dist.get_backend())
        # Every rank makes its communicators in the same order; the keys of an earlier one may still be there.
        self._store = PrefixStore(f"scalecurve/{next(_made)}", _own_connection(distributed_c10d._get_default_store()))
        self._store.set_timeout(_PATIENCE)
        self._barriers = 0
        self._gathers = 0

    def barrier(self) -> None:
        self._barriers += 1
        name = f"barrier/{self._barriers}"
        if self._store.add(name, 1) == self.world:
            self._store.set(f"{name}/open", "1")
        self._store.wait([f"{name}/open"])
        # Every rank is in this barrier, so none waits in the one before the last.
        self._forget(f"barrier/{self._barriers - 2}", f"barrier/{self._barriers - 2}/open")

    def all_gather(self, value: Any) -> list[Any]:
        self._gathers += 1
        names = [f"gather/{self._gathers}/{rank}" for rank in range(self.world)]
        self._store.set(names[self.rank], json.dumps(value))
        values = [json.loads(self._store.get(name)) for name in names]
        self.barrier()
        self._forget(*names)
        return values

    def gather(self, data: bytes) -> list[bytes]:
        self._gathers += 1
        name = f"gather/{self._gathers}"
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
        for number, piece in enumerate(pieces):
            self._store.set(f"{name}/{self.rank}/{number}", piece)  # type: ignore[arg-type]  # bytes it takes too
        self._store.set(f"{name}/{self.rank}", str(len(pieces)))
        parts = [self._collect(f"{name}/{rank}") for rank in range(self.world)] if self.rank == 0 else []
        self.barrier()
        return parts

    def _collect(self, name: str) -> bytes:
        parts = [f"{name}/{number}" for number in range(int(self._store.get(name)))]
        data = b"".join(self._store.get(part) for part in parts)
        self._forget(name, *parts)
        return data

    def _forget(self, *names: str) -> None:
        if self.rank == 0:
            for name in names:
                self._store.delete_key(name)


def _own_connection(store: Store) -> Store:
    """A second connection to the same store, where there is such a thing.

    A store's client is locked while it waits, and NCCL's watchdog asks through the same one.
    """
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    clone = getattr(store, "clone", None)
    return clone() if isinstance(store, TCPStore) and clone is not None else store
