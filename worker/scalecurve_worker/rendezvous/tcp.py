"""Processes that meet at rank 0 over TCP, for frameworks without a store of their own.

Rank 0 listens where everybody knows (``MASTER_ADDR`` and ``MASTER_PORT``, or a port that it leaves in a folder), the
others connect. A call costs one message to rank 0 and one back. Every message is an 8-byte length and so many bytes.
Nobody is believed who does not know the trial's name and ``SCALECURVE_SECRET`` (``hello``); nothing is encrypted.
"""

import json
import os
import secrets
import selectors
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from scalecurve_api.contract import SECRET_ENV, failure_file
from scalecurve_api.files import write_atomic
from scalecurve_worker.rendezvous.hello import NONCE_BYTES, Guest, answer

_LENGTH = struct.Struct("!Q")
_LARGEST = 1 << 34
_LARGEST_HELLO = 1 << 16
_PATIENCE_S = 3600.0
_RETRY_S = 0.05
_HELLO_S = 10.0
_MOST_GUESTS = 1 << 10
"""Connections that have not shown who they are; ranks of a trial come and are taken in faster."""


class CommunicatorError(RuntimeError):
    """Ranks that cannot meet."""


class TcpCommunicator:
    """A communicator of ``world`` processes; ``name`` and the attempt's secret keep all others out."""

    backend: str | None = None
    _advice = ""  # at the end of what a rank says that waited in vain

    def __init__(
        self, rank: int, world: int, host: str, port: int, name: str = "", patience_s: float = _PATIENCE_S
    ) -> None:
        """Return when every rank has connected."""
        self.rank, self.world = rank, world
        self._host, self._port, self._name, self._patience_s = host, port, name, patience_s
        self._peers: dict[int, socket.socket] = {}
        if rank == 0:
            self._accept_all()
        else:
            self._peers[0] = self._join()
        self.barrier()

    def barrier(self) -> None:
        self.all_gather(None)

    def all_gather(self, value: Any) -> list[Any]:
        mine = json.dumps(value).encode()
        if self.rank:
            self._send(0, mine)
            values: list[Any] = json.loads(self._receive(0))
            return values
        parts = [mine, *(self._receive(rank) for rank in range(1, self.world))]
        reply = b"[" + b",".join(parts) + b"]"
        for rank in range(1, self.world):
            self._send(rank, reply)
        return [json.loads(part) for part in parts]

    def gather(self, data: bytes) -> list[bytes]:
        if self.rank:
            self._send(0, data)
            return []
        return [data, *(self._receive(rank) for rank in range(1, self.world))]

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers = {}

    def __del__(self) -> None:
        self.close()

    def _announce_port(self, port: int) -> None:
        """Rank 0 listens on ``port``; the others know."""

    def _find_rank_0(self) -> None:
        """Every rank knows where rank 0 listens."""

    def _check_others(self) -> None:
        """Raise CommunicatorError where a rank is known to have failed."""

    def _accept_all(self) -> None:
        # On one machine nobody else has to reach it; in a pod it is reached by the pod's address.
        interface = self._host if self._host in ("127.0.0.1", "localhost") else ""
        give_up = time.monotonic() + self._patience_s
        try:
            listener = socket.create_server((interface, self._port), backlog=self.world + 64)
        except OSError as error:
            raise CommunicatorError(f"rank 0: cannot listen on port {self._port}: {error.strerror}") from error
        with listener:
            port = listener.getsockname()[1]
            self._announce_port(port)
            with _Door(listener, self._key(), self.world) as door:
                while missing := [rank for rank in range(1, self.world) if rank not in self._peers]:
                    left = give_up - time.monotonic()
                    if left <= 0:
                        raise CommunicatorError(
                            f"rank 0 waited {self._patience_s:.0f} s for rank {missing} on port {port}{self._advice}"
                        )
                    self._check_others()
                    for rank, peer in door.arrivals(min(left, 0.5), set(missing)).items():
                        _settle(peer, self._patience_s)
                        self._peers[rank] = peer

    def _key(self) -> bytes:
        return f"{os.environ.get(SECRET_ENV, '')}/{self._name}".encode()

    def _join(self) -> socket.socket:
        give_up = time.monotonic() + self._patience_s
        while True:
            peer: socket.socket | None = None
            why = "no answer"
            try:
                # A pod's name is in the DNS some time after its address is known, and rank 0 may start later.
                self._find_rank_0()
                peer = socket.create_connection((self._host, self._port), timeout=_HELLO_S)
                hello, welcome = answer(self._key(), self.rank, self.world, _exactly(peer, NONCE_BYTES))
                _send(peer, hello)
                if secrets.compare_digest(_receive(peer, _LARGEST_HELLO), welcome.encode()):
                    _settle(peer, self._patience_s)
                    return peer
            except (OSError, EOFError, ValueError) as error:
                why = str(error)
            if peer is not None:
                peer.close()
            self._check_others()
            if time.monotonic() > give_up:
                raise CommunicatorError(
                    f"rank {self.rank} of {self.world} did not reach rank 0 at {self._host}:{self._port} in "
                    f"{self._patience_s:.0f} s: {why}{self._advice}"
                )
            time.sleep(_RETRY_S)

    def _send(self, rank: int, data: bytes) -> None:
        try:
            _send(self._peers[rank], data)
        except (OSError, KeyError) as error:
            raise self._explain_lost_rank(rank, error) from error

    def _receive(self, rank: int) -> bytes:
        try:
            return _receive(self._peers[rank], _LARGEST)
        except (OSError, EOFError, KeyError, ValueError) as error:
            raise self._explain_lost_rank(rank, error) from error

    def _explain_lost_rank(self, rank: int, error: Exception) -> CommunicatorError:
        self._check_others()
        why = f"no message for {self._patience_s:.0f} s" if isinstance(error, TimeoutError) else "connection closed"
        return CommunicatorError(f"rank {self.rank} of {self.world}: lost rank {rank}: {why}")


class _Door:
    """Where rank 0 listens: many may come at once, and none who says nothing keeps the others waiting."""

    def __init__(self, listener: socket.socket, key: bytes, world: int) -> None:
        self._listener, self._key, self._world = listener, key, world
        self._guests: dict[socket.socket, Guest] = {}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        for peer in list(self._guests):
            self._send_away(peer)
        self._selector.close()

    def arrivals(self, timeout_s: float, awaited: set[int]) -> dict[int, socket.socket]:
        """The awaited ranks that have shown who they are; whoever else has come, or takes too long, is sent away."""
        shown: dict[int, socket.socket] = {}
        for ready, _ in self._selector.select(timeout_s):
            if ready.fileobj is self._listener:
                self._let_in()
            elif isinstance(peer := ready.fileobj, socket.socket) and (guest := self._guests.get(peer)) is not None:
                try:
                    told = guest.read(self._key, self._world)
                    if told is None:
                        continue
                    rank, welcome = told
                    if rank not in awaited - shown.keys():
                        raise ValueError("not awaited")
                    _send(peer, welcome)
                except (OSError, EOFError, ValueError):
                    self._send_away(peer)
                    continue
                self._forget(peer)
                shown[rank] = peer
        for peer in [peer for peer, guest in self._guests.items() if guest.late]:
            self._send_away(peer)
        return shown

    def _let_in(self) -> None:
        with suppress(OSError):
            peer, _ = self._listener.accept()
            if len(self._guests) >= _MOST_GUESTS:
                self._send_away(next(iter(self._guests)))
            guest = self._guests[peer] = Guest(peer, time.monotonic() + _HELLO_S)
            peer.setblocking(False)
            self._selector.register(peer, selectors.EVENT_READ)
            with suppress(OSError):  # who has gone again is noticed when it is read
                peer.send(guest.nonce)

    def _forget(self, peer: socket.socket) -> None:
        self._selector.unregister(peer)
        del self._guests[peer]

    def _send_away(self, peer: socket.socket) -> None:
        self._forget(peer)
        peer.close()


class FolderCommunicator(TcpCommunicator):
    """Processes of one machine that share nothing but a folder, in which rank 0 leaves its port and a fresh word.

    What an earlier run left there leads nowhere: nobody listens on its port, or whoever does has another word.
    """

    _advice = ": ranks of several machines need torch.distributed or MPI"

    def __init__(self, folder: Path, rank: int, world: int, patience_s: float = _PATIENCE_S) -> None:
        self._folder, self._began_ns = folder, time.time_ns()
        super().__init__(rank, world, "127.0.0.1", 0, secrets.token_hex(8), patience_s)

    def _announce_port(self, port: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self._folder / "meeting", json.dumps([port, self._name]))

    def _find_rank_0(self) -> None:
        self._port, self._name = json.loads((self._folder / "meeting").read_text())

    def _check_others(self) -> None:
        for rank in range(self.world):
            file = self._folder / failure_file(rank)
            if rank != self.rank and file.exists() and file.stat().st_mtime_ns >= self._began_ns:
                raise CommunicatorError(f"rank {self.rank}: rank {rank} has failed, see {self._folder}")


def _settle(peer: socket.socket, patience_s: float) -> None:
    peer.settimeout(patience_s)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(_LENGTH.pack(len(data)) + data)


def _receive(peer: socket.socket, largest: int) -> bytes:
    size = _LENGTH.unpack(_exactly(peer, _LENGTH.size))[0]
    if size > largest:
        raise ValueError(f"a message of {size} bytes")
    return _exactly(peer, size)


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = peer.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError("the connection has ended")
        data += part
    return bytes(data)
