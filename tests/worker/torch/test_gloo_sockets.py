"""Connections of a process, and which of them are between ranks."""

from __future__ import annotations

import socket

from scalecurve_worker.torch.transports import connections, gloo_transport, interfaces


def test_own_connections_are_listed_but_those_to_the_store() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0]:
            here = f"127.0.0.1:{client.getsockname()[1]}"
            assert {(here, f"127.0.0.1:{port}"), (f"127.0.0.1:{port}", here)} <= set(connections(None))
            assert not [pair for pair in connections(port) if here in pair]


def test_only_what_another_rank_has_the_other_end_of_is_gloos() -> None:
    ranks = [
        [("127.0.0.1:10", "127.0.0.1:20"), ("10.0.0.1:9", "10.9.9.9:80")],
        [("127.0.0.1:20", "127.0.0.1:10"), ("127.0.0.1:21", "127.0.0.1:30")],
        [("127.0.0.1:30", "127.0.0.1:21")],
    ]
    middle = gloo_transport(1, ranks)
    assert middle is not None
    assert (middle.library, middle.channels) == ("gloo", {"TCP": 2})
    assert (middle.peers, middle.interfaces) == ({"0": "TCP", "2": "TCP"}, ["lo 127.0.0.1"])
    assert gloo_transport(0, [ranks[0], [], []]) is None
    assert interfaces()["127.0.0.1"] == "lo"
