from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from scalecurve_worker.features.parameter_servers import protocol
from scalecurve_worker.features.parameter_servers.protocol import ConnectionClosedError, Header, MessageKind


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_a_message_arrives_as_it_was_sent() -> None:
    sent, found = torch.arange(5.0), torch.zeros(5)
    with connected() as (left, right):
        protocol.greet(left, b"x" * protocol.TOKEN_BYTES, 3)
        assert protocol.receive_greeting(right) == (b"x" * protocol.TOKEN_BYTES, 3)
        taken = protocol.send(left, Header(MessageKind.push, version=7, rate=0.25, used=False), protocol.bytes_of(sent))
        header = protocol.receive(right)
        assert header == Header(MessageKind.push, version=7, size=20, rate=0.25, used=False)
        assert protocol.receive_into(right, header, protocol.bytes_of(found)) == taken
        assert torch.equal(found, sent)
        left.close()
        with pytest.raises(ConnectionClosedError):
            protocol.receive(right)


def test_a_payload_of_another_size_is_refused() -> None:
    with connected() as (left, right):
        protocol.send(left, Header(MessageKind.push), b"1234")
        with pytest.raises(ConnectionError, match="push: got 4 bytes, expected 8"):
            protocol.receive_into(right, protocol.receive(right), memoryview(bytearray(8)))
