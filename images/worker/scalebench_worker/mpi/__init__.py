"""Ranks that mpirun started, through mpi4py."""

from __future__ import annotations

import importlib.util
from typing import Any


def available() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


class MPICommunicator:
    """A duplicate of MPI's world, so that no message of the program is ever taken for ours."""

    backend = "mpi"

    def __init__(self) -> None:
        from mpi4py import MPI

        self._comm = MPI.COMM_WORLD.Dup()
        self.rank: int = self._comm.Get_rank()
        self.world: int = self._comm.Get_size()

    def barrier(self) -> None:
        """Return when every rank has called."""
        self._comm.Barrier()

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank."""
        return list(self._comm.allgather(value))

    def gather(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks, by rank, on rank 0; nothing on the others."""
        # One by one: a collective counts bytes in 32 bits, over all ranks together.
        if self.rank == 0:
            return [data, *(bytes(self._comm.recv(source=rank)) for rank in range(1, self.world))]
        self._comm.send(data, dest=0)
        return []
