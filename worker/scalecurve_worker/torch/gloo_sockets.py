"""Which of this process's connections are gloo's, and over which interface: gloo itself does not tell."""

import fcntl
import ipaddress
import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from scalecurve_api.record.transport import Transport

_ESTABLISHED = "01"
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR
Ends = tuple[str, str]
"""Local and remote end of a connection: address:port."""


def connections(store_port: int | None) -> list[Ends]:
    """Established TCP connections of this process, without those to the ranks' key-value store."""
    own = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(os.readlink(link))
    ends = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
                local, remote, state, *_, inode = line.split()[1:10]
                if state == _ESTABLISHED and f"socket:[{inode}]" in own:
                    ends.append((_end(local), _end(remote)))
    store = f":{store_port}"
    return [pair for pair in ends if not any(end.endswith(store) for end in pair)]


def of_gloo(rank: int, by_rank: Sequence[Iterable[Ends]]) -> Transport | None:
    """A rank's connections that another rank has the other end of; None where there is none."""
    owners = {local: owner for owner, pairs in enumerate(by_rank) for local, _ in pairs}
    between = [(local, owners[remote]) for local, remote in by_rank[rank] if owners.get(remote, rank) != rank]
    if not between:
        return None
    names = interfaces()
    addresses = Counter(local.rpartition(":")[0] for local, _ in between)
    return Transport(
        library="gloo",
        channels={"TCP": len(between)},
        peers={str(peer): "TCP" for peer in sorted({peer for _, peer in between})},
        interfaces=[f"{names.get(address, '?')} {address}" for address in sorted(addresses)],
    )


def interfaces() -> dict[str, str]:
    """Names of this machine's network interfaces by their IPv4 address."""
    names = {"127.0.0.1": "lo"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(any_socket.fileno(), _ADDRESS_OF_INTERFACE, request)
                names[socket.inet_ntoa(answer[20:24])] = name
    return names


def _end(text: str) -> str:
    """``127.0.0.1:80`` of ``0100007F:0050``: words of 32 bits in the machine's order, then the port."""
    words, _, port = text.partition(":")
    raw = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    address = ipaddress.ip_address(raw)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return f"{address}:{int(port, 16)}"
