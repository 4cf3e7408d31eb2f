"""What carried a rank's collectives, by the library's own word at the start of its communicators."""

import re
from collections import Counter

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text


class Transport(Model):
    """Of one rank. ``channels`` counts connections to peers by their transport, as NCCL names it (P2P, SHM, NET/IB)."""

    library: Text
    channels: dict[Text, Int64] = Field(default={}, description="transport -> connections")
    peers: dict[Text, Text] = Field(default={}, description="peer's rank -> its transports, in alphabetical order")
    interfaces: list[Text] = Field(default=[], description="network devices in use, with their addresses if any")
    gdr: bool | None = Field(default=None, description="whether the network reads and writes the GPU's memory")
    nvls: bool | None = Field(default=None, description="whether sums are made in NVSwitch")
    visible: dict[Text, Text] = Field(
        default={}, description="peer's rank -> fastest transport that the machine has to it, where that is known"
    )
    network: Text | None = Field(default=None, description="what goes between nodes, as the library calls it")
    lacking: list[Text] = Field(default=[], description="networks of which the library found no device")
    adapters: list[Text] = Field(default=[], description="InfiniBand, RoCE and EFA devices of the machine")


_CHANNEL = re.compile(
    r"NCCL INFO Channel \d+(?:/\d+)?\s*: (?P<from>\d+)\[[0-9a-fx]+\] -> (?P<to>\d+)\[[0-9a-fx]+\]"
    r"(?: \[(?:send|receive)\])? via (?P<via>\S+)"
)
_USING = re.compile(r"NCCL INFO NET/(?P<kind>\w+)\s*: Using (?P<devices>.+)")
_DEVICE = re.compile(r"\[\d+\](?P<name>[^\s;\[\]]+)")
_NETWORK = re.compile(r"NCCL INFO (?:\[\d+\] )?Using network (?P<name>.+)")
_LACKING = re.compile(r"NCCL INFO (?P<name>NET/\w+)\s*: No device found", re.IGNORECASE)
_NVLS = re.compile(r"NCCL INFO (?:Connected NVLS|NVLS comm)")


def network_of_nccl(log: str) -> Transport | None:
    """What NCCL says of its network, connected or not; None where it says nothing.

    Lines read: ``Using network Socket``, ``NET/IB : No device found.``, ``NET/Socket : Using [0]eth0:10.0.0.4<0>``.
    """
    chosen = _NETWORK.search(log)
    if chosen is None:
        return None
    return Transport(
        library="nccl",
        interfaces=_networks(log),
        network=chosen["name"].strip(),
        lacking=list(dict.fromkeys(match["name"] for match in _LACKING.finditer(log))),
    )


def _networks(log: str) -> list[str]:
    names = (
        f"{use['kind']} {device['name']}" for use in _USING.finditer(log) for device in _DEVICE.finditer(use["devices"])
    )
    return list(dict.fromkeys(names))


def nccl_transport(log: str, rank: int) -> Transport | None:
    """What NCCL reported with NCCL_DEBUG=INFO in one process; None where it connected to no peer.

    Lines read: ``Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM``, ``... [send] via NET/IB/0/GDRDMA``, ``NET/IB : Using
    [0]mlx5_0:1/RoCE``, ``Connected NVLS tree``.
    """
    channels: Counter[str] = Counter()
    peers: dict[int, set[str]] = {}
    direct: list[bool] = []
    for match in _CHANNEL.finditer(log):
        kind = _kind(match["via"])
        ends = {int(match["from"]), int(match["to"])}
        if rank not in ends:
            continue
        channels[kind] += 1
        for peer in ends - {rank}:
            peers.setdefault(peer, set()).add(kind)
        if kind.startswith("NET"):
            direct.append("GDRDMA" in match["via"])
    if not channels:
        return None
    network = network_of_nccl(log)
    return Transport(
        library="nccl",
        channels=dict(sorted(channels.items())),
        peers={str(peer): ", ".join(sorted(kinds)) for peer, kinds in sorted(peers.items())},
        interfaces=_networks(log) if direct else [],
        gdr=all(direct) if direct else None,
        nvls=_NVLS.search(log) is not None,
        network=network.network if network else None,
        lacking=network.lacking if network else [],
    )


def _kind(via: str) -> str:
    """``NET/IB`` of ``NET/IB/0(1)/GDRDMA/Shared``, ``P2P`` of ``P2P/CUMEM/read``."""
    parts = via.split("/")
    return "/".join(parts[:2]) if parts[0] == "NET" else parts[0]
