"""Processes that meet through rank 0: real sockets, ranks in threads."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from scalecurve_worker.rendezvous import tcp
from scalecurve_worker.rendezvous.hello import Guest, answer
from scalecurve_worker.rendezvous.tcp import CommunicatorError, TcpCommunicator
from tests.waiting import PATIENCE_S, eventually
from tests.worker.ports import free_port


def meet(world: int, do: Callable[[TcpCommunicator], Any], patience_s: float = PATIENCE_S) -> list[Any]:
    """What ``do`` gives on every rank."""
    port = free_port()

    def rank(number: int) -> Any:
        hub = TcpCommunicator(number, world, "127.0.0.1", port, "trial", patience_s)
        try:
            return do(hub)
        finally:
            hub.close()

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(rank, range(world)))


@pytest.mark.parametrize("world", [1, 2, 5])
def test_every_rank_has_the_values_of_all(world: int) -> None:
    def do(hub: TcpCommunicator) -> list[Any]:
        return [hub.all_gather([hub.rank, turn, "é"]) for turn in range(20)]

    wanted = [[[rank, turn, "é"] for rank in range(world)] for turn in range(20)]
    assert meet(world, do) == [wanted] * world


def test_nobody_leaves_a_barrier_before_the_last_has_come() -> None:
    came: list[int] = []
    held = threading.Event()

    def do(hub: TcpCommunicator) -> int:
        if hub.rank == 2:
            assert held.wait(PATIENCE_S)
        came.append(hub.rank)
        if len(came) == 2:
            held.set()
        hub.barrier()
        return len(came)

    assert meet(3, do) == [3, 3, 3]


def test_rank_0_gathers_bytes_of_any_size() -> None:
    found = meet(3, lambda hub: hub.gather(bytes([hub.rank]) * (3_000_000 * hub.rank)))
    assert found == [[b"", b"\1" * 3_000_000, b"\2" * 6_000_000], [], []]


def test_a_rank_that_ends_is_missed_by_the_others() -> None:
    said: dict[int, str] = {}

    def do(hub: TcpCommunicator) -> None:
        if hub.rank == 1:
            return
        with pytest.raises(CommunicatorError) as caught:
            hub.barrier()
        said[hub.rank] = str(caught.value)

    meet(3, do)
    assert said[0] == "rank 0 of 3: lost rank 1: connection closed"
    assert "lost rank 0" in said[2]


def test_strangers_are_sent_away() -> None:
    port = free_port()
    hubs: list[TcpCommunicator] = []
    host = threading.Thread(target=lambda: hubs.append(TcpCommunicator(0, 2, "127.0.0.1", port, "this", PATIENCE_S)))
    host.start()
    connected(port).close()  # whoever comes now is heard
    with pytest.raises(CommunicatorError, match=f"rank 1 of 2 did not reach rank 0 at 127.0.0.1:{port}"):
        TcpCommunicator(1, 2, "127.0.0.1", port, "another trial", patience_s=0.5)
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 8, b"\0" * 7 + b"\5[1,2]"):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(junk)
    guest = TcpCommunicator(1, 2, "127.0.0.1", port, "this", PATIENCE_S)
    host.join(PATIENCE_S)
    guest.close()
    hubs[0].close()


def test_who_waits_in_vain_says_for_whom() -> None:
    with pytest.raises(CommunicatorError, match=r"rank 0 waited 0 s for rank \[1, 2\]"):
        TcpCommunicator(0, 3, "127.0.0.1", free_port(), patience_s=0.3)


def test_a_taken_port_is_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(CommunicatorError, match=f"cannot listen on port {server.getsockname()[1]}"),
    ):
        TcpCommunicator(0, 2, "127.0.0.1", server.getsockname()[1])


def test_who_connects_and_says_nothing_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_HELLO_S", 600.0)
    port = free_port()
    with ThreadPoolExecutor(3) as pool:
        hub = pool.submit(TcpCommunicator, 0, 3, "127.0.0.1", port, "this", PATIENCE_S)
        silent = [connected(port) for _ in range(40)]
        guests = [pool.submit(TcpCommunicator, rank, 3, "127.0.0.1", port, "this", PATIENCE_S) for rank in (1, 2)]
        met = [joined.result(PATIENCE_S) for joined in (hub, *guests)]
    for peer in (*silent, *met):
        peer.close()


def connected(port: int) -> socket.socket:
    """A connection to a hub that may not listen yet."""

    def connect() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        except ConnectionRefusedError:
            return None

    made = eventually(connect, "a hub that listens")
    assert made is not None
    return made


JOIN = """
import sys
from scalecurve_worker.rendezvous.tcp import TcpCommunicator
print(TcpCommunicator(int(sys.argv[1]), 2, "127.0.0.1", int(sys.argv[2]), "this", float(sys.argv[3])).all_gather(7))
"""


def rank_process(rank: int, port: int, secret: str, patience_s: float = PATIENCE_S) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", JOIN, str(rank), str(port), str(patience_s)]
    environment = {**os.environ, "SCALECURVE_SECRET": secret}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_only_who_has_the_attempts_secret_is_a_rank() -> None:
    port = free_port()
    hub = rank_process(0, port, "right")
    connected(port).close()  # whoever comes now is heard
    stranger = rank_process(1, port, "wrong", patience_s=3.0)
    assert "did not reach rank 0" in stranger.communicate(timeout=PATIENCE_S)[1]
    assert hub.poll() is None, "it waits for its own"
    guest = rank_process(1, port, "right")
    assert [process.communicate(timeout=PATIENCE_S)[0] for process in (hub, guest)] == ["[7, 7]\n"] * 2


def test_a_rank_tells_nothing_to_a_hub_without_the_secret() -> None:
    """A hub in between can pass the hello on, but not answer it; and no hello holds twice."""
    key, nonce = b"right/this", b"n" * 16
    hello, welcome = answer(key, 1, 2, nonce)
    assert b"right" not in hello
    assert answer(b"wrong/this", 1, 2, nonce)[1] != welcome
    assert read(hello, nonce) == (1, welcome.encode())
    for said, asked in ((hello, b"m" * 16), (answer(b"wrong/this", 1, 2, nonce)[0], nonce)):
        with pytest.raises(ValueError, match="a stranger"):
            read(said, asked)


def read(said: bytes, nonce: bytes = b"n" * 16) -> tuple[int, bytes] | None:
    """What rank 0 of two makes of a hello."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(struct.pack("!Q", len(said)) + said)
        return Guest(here, time.monotonic() + PATIENCE_S, nonce).read(b"right/this", 2)


@pytest.mark.parametrize(
    "said",
    [b"[" * 4000, b"[1,2]", b"[1,2,3,4]", b'["1",2,"zz",null]', b"\xff\xfe", b'[1e999,2,"00","\xc3\xa9"]', b"{}"],
)
def test_a_hello_may_be_anything(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(said)
