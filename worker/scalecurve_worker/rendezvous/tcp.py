"""Processes of one or several pods that meet at rank 0 over TCP, for frameworks without a store of their own.

Rank 0 listens where everybody knows (``MASTER_ADDR`` and ``MASTER_PORT``, or a port that was agreed on), the others
connect. A call costs one message to rank 0 and one back. Every message is an 8-byte length and so many bytes.
"""

import json
import socket
import struct
import time
from typing import Any

from scalecurve_worker.rendezvous.communicator import CommunicatorError

_LENGTH = struct.Struct("!Q")
_LARGEST = 1 << 34
_LARGEST_HELLO = 1 << 16
_PATIENCE_S = 3600.0
_RETRY_S = 0.05
_HELLO_S = 10.0
_WELCOME = b"welcome"


class TcpCommunicator:
    """A communicator of ``world`` processes; ``name`` keeps those of another trial or attempt out."""

    backend: str | None = None

    def __init__(
        self, rank: int, world: int, host: str, port: int, name: str = "", patience_s: float = _PATIENCE_S
    ) -> None:
        """Return when every rank has connected."""
        self.rank = rank
        self.world = world
        self._patience_s = patience_s
        self._peers: dict[int, socket.socket] = {}
        hello = json.dumps([name, rank, world]).encode()
        if rank == 0:
            self._host(host, port, name)
        else:
            self._peers[0] = self._join(host, port, hello)
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

    def _host(self, host: str, port: int, name: str) -> None:
        # On one machine nobody else has to reach it; in a pod it is reached by the pod's address.
        interface = host if host in ("127.0.0.1", "localhost") else ""
        give_up = time.monotonic() + self._patience_s
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((interface, port))
            except OSError as error:
                raise CommunicatorError(f"rank 0: cannot listen on port {port}: {error.strerror}") from error
            listener.listen(self.world + 64)
            while len(self._peers) < self.world - 1:
                left = give_up - time.monotonic()
                missing = [rank for rank in range(1, self.world) if rank not in self._peers]
                if left <= 0:
                    raise CommunicatorError(f"rank 0 waited {self._patience_s:.0f} s for rank {missing} on port {port}")
                listener.settimeout(min(left, 1.0))
                try:
                    peer, _ = listener.accept()
                except TimeoutError:
                    continue
                self._welcome(peer, name)

    def _welcome(self, peer: socket.socket, name: str) -> None:
        """Take in a rank that is awaited; whoever else connects is sent away."""
        peer.settimeout(_HELLO_S)
        try:
            hello = json.loads(_receive(peer, _LARGEST_HELLO))
            awaited = [[name, rank, self.world] for rank in range(1, self.world) if rank not in self._peers]
            if hello not in awaited:
                peer.close()
                return
            _send(peer, _WELCOME)
        except (OSError, EOFError, ValueError):
            peer.close()
            return
        _settle(peer, self._patience_s)
        self._peers[hello[1]] = peer

    def _join(self, host: str, port: int, hello: bytes) -> socket.socket:
        give_up = time.monotonic() + self._patience_s
        while True:
            peer: socket.socket | None = None
            why = "no answer"
            try:
                # A pod's name is in the DNS some time after its address is known, and rank 0 may start later.
                peer = socket.create_connection((host, port), timeout=_HELLO_S)
                _send(peer, hello)
                if _receive(peer, _LARGEST_HELLO) == _WELCOME:
                    _settle(peer, self._patience_s)
                    return peer
            except (OSError, EOFError, ValueError) as error:
                why = str(error)
            if peer is not None:
                peer.close()
            if time.monotonic() > give_up:
                raise CommunicatorError(
                    f"rank {self.rank} of {self.world} did not reach rank 0 at {host}:{port} in "
                    f"{self._patience_s:.0f} s: {why}"
                )
            time.sleep(_RETRY_S)

    def _send(self, rank: int, data: bytes) -> None:
        try:
            _send(self._peers[rank], data)
        except (OSError, KeyError) as error:
            raise self._lost(rank, error) from error

    def _receive(self, rank: int) -> bytes:
        try:
            return _receive(self._peers[rank], _LARGEST)
        except (OSError, EOFError, KeyError, ValueError) as error:
            raise self._lost(rank, error) from error

    def _lost(self, rank: int, error: Exception) -> CommunicatorError:
        why = f"no message for {self._patience_s:.0f} s" if isinstance(error, TimeoutError) else "connection closed"
        return CommunicatorError(f"rank {self.rank} of {self.world}: lost rank {rank}: {why}")


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
