"""Messages between workers and parameter servers: a header of fixed size, then raw fp32 or JSON."""

import socket
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from torch import Tensor

TOKEN_BYTES = 16
_HELLO = struct.Struct(f"<{TOKEN_BYTES}sI")
_HEADER = struct.Struct("<B?QQd")


class MessageKind(IntEnum):
    """What a message is."""

    initial = 1
    push = 2
    fetch = 3
    counts = 4
    parameters = 5


class Header(NamedTuple):
    """``version`` is the count of updates behind the parameters meant; ``rate`` the learning rate of a push.

    ``used`` is False in the answer to a push that came too late.
    """

    kind: MessageKind
    version: int = 0
    size: int = 0
    rate: float = 0.0
    used: bool = True


class ConnectionClosedError(ConnectionError):
    """The other side has ended the connection between two messages."""


def greet(connection: socket.socket, token: bytes, rank: int) -> None:
    """Say who this is."""
    connection.sendall(_HELLO.pack(token, rank))


def receive_greeting(connection: socket.socket) -> tuple[bytes, int]:
    """Read the token and rank of the other side."""
    data = bytearray(_HELLO.size)
    _fill(connection, memoryview(data))
    token, rank = _HELLO.unpack(data)
    return token, rank


def send(connection: socket.socket, header: Header, payload: memoryview | bytes = b"") -> int:
    """Send a message; the bytes it took."""
    size = len(payload)
    connection.sendall(_HEADER.pack(header.kind, header.used, header.version, size, header.rate))
    if size:
        connection.sendall(payload)
    return _HEADER.size + size


def receive(connection: socket.socket) -> Header:
    """Receive the next header; the payload's ``size`` bytes are still to come."""
    data = bytearray(_HEADER.size)
    _fill(connection, memoryview(data))
    kind, used, version, size, rate = _HEADER.unpack(data)
    return Header(MessageKind(kind), version, size, rate, used)


def receive_into(connection: socket.socket, header: Header, view: memoryview) -> int:
    """Fill ``view`` with the payload; the bytes that the message took."""
    if header.size != len(view):
        raise ConnectionError(f"{header.kind.name}: got {header.size} bytes, expected {len(view)}")
    _fill(connection, view)
    return _HEADER.size + header.size


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the memory of a contiguous tensor on the CPU, which must outlive the view."""
    array: Any = tensor.numpy()
    return memoryview(array).cast("B")


def _fill(connection: socket.socket, view: memoryview) -> None:
    while len(view):
        count = connection.recv_into(view)
        if not count:
            raise ConnectionClosedError("the other side has closed the connection")
        view = view[count:]
