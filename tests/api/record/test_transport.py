"""What NCCL, in lines of its own form, says of a rank's connections."""

from __future__ import annotations

from scalecurve_api.record.transport import nccl_transport, network_of_nccl

ONE_NODE = """\
node1:901:901 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.4<0>
node1:901:930 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>
node1:901:930 [0] NCCL INFO Using network Socket
node1:901:930 [0] NCCL INFO NVLS multicast support is available on dev 0
node1:901:930 [0] NCCL INFO Channel 00/24 : 0 1
node1:901:930 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:901:930 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:901:930 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM/read
node1:901:930 [0] NCCL INFO Connected all rings
"""
TWO_NODES = """\
node1:77:101 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.4<0>
node1:77:101 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct
node1:77:101 [0] NCCL INFO Channel 00/0 : 2[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
node1:77:101 [0] NCCL INFO Channel 01/0 : 0[0] -> 2[0] [send] via NET/IB/1(1)/GDRDMA/Shared
node1:77:101 [0] NCCL INFO Channel 01/0 : 2[0] -> 3[1] via P2P/IPC
node1:77:101 [0] NCCL INFO Connected NVLS tree
"""


def test_gpus_of_one_node_are_peers_and_its_network_is_idle() -> None:
    seen = nccl_transport(ONE_NODE, 0)
    assert seen is not None
    assert (seen.channels, seen.peers) == ({"P2P": 3}, {"1": "P2P"})
    assert (seen.interfaces, seen.gdr, seen.nvls) == ([], None, False)


def test_peers_of_another_node_are_reached_by_network_cards() -> None:
    seen = nccl_transport(TWO_NODES, 0)
    assert seen is not None
    assert seen.channels == {"NET/IB": 2, "SHM": 1}
    assert seen.peers == {"1": "SHM", "2": "NET/IB"}
    assert seen.interfaces == ["IB mlx5_0:1/RoCE", "IB mlx5_1:1/RoCE"]
    assert (seen.gdr, seen.nvls) == (True, True)


def test_a_fall_back_to_sockets_is_seen() -> None:
    lines = ONE_NODE.replace("via P2P/CUMEM/read", "[send] via NET/Socket/0")
    seen = nccl_transport(lines, 0)
    assert seen is not None
    assert (seen.channels, seen.gdr) == ({"NET/Socket": 3}, False)
    assert seen.interfaces == ["Socket eth0:10.0.0.4<0>"]


def test_the_network_that_was_chosen_and_what_was_not_found_are_kept() -> None:
    log = "node1:901:930 [0] NCCL INFO NET/IB : No device found.\n" + ONE_NODE
    way = network_of_nccl(log)
    assert way is not None
    assert (way.network, way.lacking, way.interfaces) == ("Socket", ["NET/IB"], ["Socket eth0:10.0.0.4<0>"])
    seen = nccl_transport(log, 0)
    assert seen is not None
    assert (seen.network, seen.lacking) == ("Socket", ["NET/IB"])
    assert network_of_nccl("") is None


def test_a_log_without_connections_says_nothing() -> None:
    assert nccl_transport("", 0) is None
    assert nccl_transport(ONE_NODE, 7) is None
