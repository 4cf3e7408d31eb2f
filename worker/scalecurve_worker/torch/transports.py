"""What carried this rank's collectives, for its record; every rank calls, after its timed windows."""

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
from typing import Any

from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed import distributed_c10d

from scalecurve_api.record.transport import Transport
from scalecurve_worker.monitor.nvml import nvlink_between
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.rendezvous.torch_store import is_initialized
from scalecurve_worker.torch import nccl_log

_ESTABLISHED = "01"
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR
Ends = tuple[str, str]
"""Local and remote end of a connection: address:port."""


def connections(store_port: int | None) -> list[Ends]:
    """List the established TCP connections of this process, without those to the ranks' key-value store."""
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


def gloo_transport(rank: int, by_rank: Sequence[Iterable[Ends]]) -> Transport | None:
    """Describe a rank's connections that another rank has the other end of; None where there is none."""
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
    """Map IPv4 addresses to the names of this machine's network interfaces."""
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


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SHARED_MEMORY = Path("/dev/shm")
_ADAPTERS = Path("/sys/class/infiniband")
_VERBS = Path("/dev/infiniband")


def place_of(device: str) -> dict[str, Any]:
    """Return what the other ranks need to know of this one's place, as JSON.

    Two containers of a host have shared memory of their own, and so another device number of it.
    """
    return {
        "device": device,
        "host": _text(_BOOT),
        "shared_memory": os.stat(_SHARED_MEMORY).st_dev if os.access(_SHARED_MEMORY, os.W_OK) else None,
        "adapters": _usable_adapters(),
    }


def fastest_between(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """Name the fastest transport as NCCL does; None where only the host's network is left, or nothing is known.

    P2P stands for NVLink alone: over PCIe NCCL weighs P2P against shared memory by the distance, and often rightly.
    """
    if here["host"] is not None and here["host"] == there["host"]:
        if nvlink_between(here["device"], there["device"]):
            return "P2P"
        shared = here["shared_memory"] is not None and here["shared_memory"] == there["shared_memory"]
        return "SHM" if shared else None
    return "NET/IB" if here["adapters"] and there["adapters"] else None


def _usable_adapters() -> bool:
    """Whether an RDMA adapter has an active port, and this container its device."""
    states = _ADAPTERS.glob("*/ports/*/state")
    return any(_text(state) == "4: ACTIVE" for state in states) and any(_VERBS.glob("uverbs*"))


def adapters() -> list[str]:
    """List every RDMA adapter of the machine, ``mlx5_0`` or ``rdmap0s6 (EFA)``, also those this container lacks."""
    drivers = {path.name: _driver(path) for path in sorted(_ADAPTERS.glob("*"))}
    return [f"{name} (EFA)" if driver == "efa" else name for name, driver in drivers.items()]


def _driver(adapter: Path) -> str:
    return (adapter / "device" / "driver").resolve().name


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def transport_of(communicator: Communicator, device: str, backend: str | None) -> Transport | None:
    """Determine the transport by the library's own word, or by this process's sockets.

    None of one process, and where neither tells.

    ``device`` is the GPU's UUID.
    """
    if communicator.world == 1 or not is_initialized():
        return None
    if backend == "gloo":
        return gloo_transport(communicator.rank, communicator.all_gather(connections(_store_port())))
    if backend != "nccl":
        return None
    seen = nccl_log.transport(communicator.rank)
    places = communicator.all_gather(place_of(device))
    if seen is None:
        return None
    ways = {int(peer): fastest_between(places[communicator.rank], places[int(peer)]) for peer in seen.peers}
    visible = {str(peer): way for peer, way in ways.items() if way is not None}
    return seen.model_copy(update={"visible": visible, "adapters": adapters()})


def _store_port() -> int | None:
    store = distributed_c10d._get_default_store()
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.port if isinstance(store, TCPStore) else None
