"""Barriers and exchange of small objects between ranks, outside the program's own collectives.

Nothing here touches a device: a barrier of the timing must not queue work behind, or before, the program's.
"""

import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from scalecurve_api.contract import OUT_ENV, PODS_ENV, failure_file
from scalecurve_worker.process.identity import MPI_VARIABLES, RankIdentity

_POLL_S = 0.0005
_PATIENCE_S = 3600.0


class CommunicatorError(RuntimeError):
    """Ranks that cannot meet."""


class Communicator(Protocol):
    """What timing and checks ask of a group of ranks. Calls are collective: every rank makes them in order."""

    rank: int
    world: int
    backend: str | None
    """The program's own collective library, as ``nccl``; None where it has none."""

    def barrier(self) -> None:
        """Return when every rank has called."""

    def all_gather(self, value: Any) -> list[Any]:
        """The JSON values of all ranks, by rank."""

    def gather(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks, by rank, on rank 0; nothing on the others."""


class SingleProcess:
    """One process."""

    rank = 0
    world = 1
    backend: str | None = None

    def barrier(self) -> None:
        """Nothing to wait for."""

    def all_gather(self, value: Any) -> list[Any]:
        return [value]

    def gather(self, data: bytes) -> list[bytes]:
        return [data]


class FolderCommunicator:
    """Processes of one machine that share nothing but a folder.

    Files of earlier runs may lie there. So every rank but 0 writes a word of its own, rank 0 answers each word with
    the name of a fresh folder, and only ranks whose word was answered go on.
    """

    backend: str | None = None

    def __init__(self, folder: Path, rank: int, world: int, patience_s: float = _PATIENCE_S) -> None:
        self.rank = rank
        self.world = world
        self._out = folder
        self._patience_s = patience_s
        self._round = 0
        self._began_ns = time.time_ns()
        meeting = folder / "meeting"
        meeting.mkdir(parents=True, exist_ok=True)
        name = self._host(meeting) if rank == 0 else self._join(meeting)
        self._room = meeting / name
        self._room.mkdir(exist_ok=True)
        self.barrier()

    def barrier(self) -> None:
        self.all_gather(None)

    def all_gather(self, value: Any) -> list[Any]:
        self._round += 1
        _write(self._room / f"{self._round}-{self.rank}", json.dumps(value))
        values = [self._wait_for(self._room / f"{self._round}-{rank}", rank) for rank in range(self.world)]
        # Whoever is in this round has read all of the one before the last.
        (self._room / f"{self._round - 2}-{self.rank}").unlink(missing_ok=True)
        return values

    def gather(self, data: bytes) -> list[bytes]:
        files = [self._room / f"bytes-{rank}" for rank in range(self.world)]
        files[self.rank].write_bytes(data)
        self.barrier()
        parts = [path.read_bytes() for path in files] if self.rank == 0 else []
        self.barrier()
        files[self.rank].unlink()
        return parts

    def _host(self, meeting: Path) -> str:
        name = secrets.token_hex(8)
        (meeting / name).mkdir()
        waiting = {rank: "" for rank in range(1, self.world)}
        give_up = time.monotonic() + self._patience_s
        while waiting:
            for rank, answered in list(waiting.items()):
                word = _read(meeting / f"word-{rank}")
                if word and word != answered:
                    _write(meeting / f"answer-{rank}", json.dumps([word, name]))
                    waiting[rank] = word
                # The rank's first file in the fresh folder says that the answered word was its own.
                if (meeting / name / f"1-{rank}").exists():
                    del waiting[rank]
            self._pause(give_up, ", ".join(map(str, waiting)))
        return name

    def _join(self, meeting: Path) -> str:
        word = secrets.token_hex(8)
        _write(meeting / f"word-{self.rank}", word)
        give_up = time.monotonic() + self._patience_s
        while True:
            answer = json.loads(_read(meeting / f"answer-{self.rank}") or "[null, null]")
            if answer[0] == word:
                return str(answer[1])
            self._pause(give_up, "0")

    def _wait_for(self, path: Path, rank: int) -> Any:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                return json.loads(path.read_text())
            except FileNotFoundError:
                self._pause(give_up, str(rank))

    def _pause(self, give_up: float, missing: str) -> None:
        if time.monotonic() > give_up:
            raise CommunicatorError(
                f"rank {self.rank} waited {self._patience_s:.0f} s for rank {missing} in {self._out}: "
                "ranks of several machines need torch.distributed or MPI"
            )
        for rank in range(self.world):
            if rank != self.rank and _written_since(self._out / failure_file(rank), self._began_ns):
                raise CommunicatorError(f"rank {self.rank}: rank {rank} has failed, see {self._out}")
        time.sleep(_POLL_S)


def find_communicator(identity: RankIdentity, out: Path | None) -> Communicator:
    """Join the group that the program already has, or the one that its launcher set up.

    torch.distributed when it is initialised; MPI when mpirun started this and mpi4py is installed; a folder when
    several plain processes share one; else this process alone.

    Raises:
        CommunicatorError: several ranks by the environment, and nothing to meet through.
    """
    if "torch" in sys.modules:
        from scalecurve_worker.rendezvous.torch_store import TorchCommunicator, initialised

        if initialised():
            return TorchCommunicator()
    if identity.world == 1:
        return SingleProcess()
    if any(name in os.environ for name in MPI_VARIABLES):
        from scalecurve_worker.rendezvous.mpi import MPICommunicator, available

        if available():
            return MPICommunicator()
    if os.environ.get(PODS_ENV, "1") != "1":
        raise CommunicatorError(
            f"rank {identity.rank} of {identity.world}: ranks of several pods need torch.distributed, initialised "
            "before attach(), or mpirun with mpi4py"
        )
    if out is None:
        raise CommunicatorError(
            f"rank {identity.rank} of {identity.world}: initialise torch.distributed before attach(), "
            f"or name a shared folder in {OUT_ENV}"
        )
    return FolderCommunicator(out, identity.rank, identity.world)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _written_since(path: Path, at_ns: int) -> bool:
    try:
        return path.stat().st_mtime_ns >= at_ns
    except FileNotFoundError:
        return False
