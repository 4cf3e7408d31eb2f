"""The fastest way that this machine has from one rank's GPU to another's, whatever a library then uses."""

import os
from pathlib import Path
from typing import Any

from scalecurve_worker.monitor.nvml import nvlink_between

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SHARED_MEMORY = Path("/dev/shm")
_ADAPTERS = Path("/sys/class/infiniband")
_VERBS = Path("/dev/infiniband")


def place_of(device: str) -> dict[str, Any]:
    """What the other ranks need to know of this one's place, as JSON.

    Two containers of a host have shared memory of their own, and so another device number of it.
    """
    return {
        "device": device,
        "host": _text(_BOOT),
        "shared_memory": os.stat(_SHARED_MEMORY).st_dev if os.access(_SHARED_MEMORY, os.W_OK) else None,
        "adapters": _usable_adapters(),
    }


def fastest_between(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """As NCCL names it; None where only the network of the host is left, or nothing is known.

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


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
