"""Processes that meet through rank 0: real sockets, ranks in threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from scalecurve_worker.rendezvous.communicator import CommunicatorError
from scalecurve_worker.rendezvous.tcp import TcpCommunicator


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def meet(world: int, do: Callable[[TcpCommunicator], Any], patience_s: float = 60.0) -> list[Any]:
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
            held.wait(10)
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
    host = threading.Thread(target=lambda: hubs.append(TcpCommunicator(0, 2, "127.0.0.1", port, "this", 60)))
    host.start()
    with pytest.raises(CommunicatorError, match=f"rank 1 of 2 did not reach rank 0 at 127.0.0.1:{port}"):
        TcpCommunicator(1, 2, "127.0.0.1", port, "another trial", patience_s=0.5)
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 8, b"\0" * 7 + b"\5[1,2]"):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(junk)
    guest = TcpCommunicator(1, 2, "127.0.0.1", port, "this", 60)
    host.join(60)
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
