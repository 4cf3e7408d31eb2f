"""Devices and links: data files with dates and sources, checked when they are read, and the names of devices."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, cast, get_args

from scalecurve.hardware.entries import EntryError, Month, Positive, SourcedEntry, find_entry, load_shipped_entries
from scalecurve.hardware.names import known_as

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
HardwareError = EntryError  # a device, link or precision that is not known, or a file that describes none: one line

# A small b is bits and a large one bytes; GBPS could be either, and is refused.
_RATE = re.compile(
    r"(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?) ?(?:(?P<bits>[gG]b(?:ps|/s|it/s))|(?P<bytes>[gG]B(?:ps|/s)))"
)

# By what a system's description calls it, the first that matches: a board of another form factor is another device.
_DEVICE_NAMES = (
    (r"GB300", "GB300"),
    (r"GB200", "GB200"),
    (r"B300", "B300"),
    (r"B200", "B200"),
    (r"GH200", "GH200"),
    (r"H200.*NVL", "H200_NVL"),
    (r"H200", "H200"),
    (r"H100.*NVL", "H100_NVL"),
    (r"H100.*PCI-?E", "H100_PCIE"),
    (r"H100", "H100"),
    (r"A100.*PCI-?E", "A100_PCIE"),
    (r"A100.*40 ?GB", "A100_40GB"),
    (r"A100", "A100"),
    (r"L40S", "L40S"),
    (r"A5000", "RTX_A5000"),
    (r"RTX (\d{4})", r"RTX_\1"),
    (r"RX (\d{4}) ?(XTX?)?", r"RX_\1_\2"),
    (r"MI(\d{3}[AX]?)", r"MI\1"),
    (r"TPU[ -]?(\w+)", r"TPU_\1"),
    (r"Gaudi\D{0,5}(\d)", r"GAUDI_\1"),
)


class DeviceSpec(SourcedEntry):
    """A device: peaks in GFLOPS by precision, memory bandwidth in GB/s, clock in MHz."""

    as_of: Month | None = None
    clock_mhz: Positive
    gflops: dict[Precision, Positive]
    memory_gb_s: Positive
    memory_gb: Positive | None = None
    gpu: bool = True
    released: Month | None = None

    def peak(self, precision: str = "fp32") -> float:
        """Peak in GFLOPS, two FLOPs a multiply-add. Raises HardwareError when the device has no such path."""
        for known, gflops in self.gflops.items():
            if known == precision:
                return gflops
        raise HardwareError(f"device {self.key}: no peak for {precision!r}; it has {', '.join(self.gflops)}")


class Link(SourcedEntry):
    """A link: what one worker sends in one direction, in Gbit/s."""

    as_of: Month | None = None
    gbps: Positive

    @property
    def bytes_per_second(self) -> float:
        return self.gbps / 8 * 1e9


@lru_cache(maxsize=1)
def devices() -> Mapping[str, DeviceSpec]:
    """Every shipped device."""
    return load_shipped_entries("devices.yaml", DeviceSpec)


@lru_cache(maxsize=1)
def links() -> Mapping[str, Link]:
    """Every shipped link."""
    return load_shipped_entries("links.yaml", Link)


def find_device(reference: str) -> DeviceSpec:
    """A shipped device by its key, or the one of a YAML file of the same form. Raises HardwareError."""
    return find_entry(reference, "device", devices(), DeviceSpec)


def find_link(reference: str) -> Link:
    """A shipped link by its key, the one of a YAML file, or a rate: ``25gbps``, ``3.1GB/s``. Raises HardwareError."""
    rate = _RATE.fullmatch(reference.strip())
    if rate is None:
        return find_entry(reference, "link", links(), Link)
    try:
        gbps = float(rate["number"]) * (8 if rate["bytes"] else 1)
    except ValueError:
        gbps = 0.0
    if not 0 < gbps < math.inf:
        raise HardwareError(f"link {reference!r}: expected a positive rate such as 25gbps or 3.1GB/s")
    return Link(key=reference, title=f"{gbps:g} Gbit/s", gbps=gbps, source="as stated")


def precision_of(name: str) -> Precision:
    """Check the name of a precision. Raises HardwareError."""
    if name in get_args(Precision):
        return cast(Precision, name)
    raise HardwareError(f"unknown precision {name!r}; expected one of {', '.join(get_args(Precision))}")


def device_name(stated: str) -> str:
    """Find the canonical name of a device.

    Args:
        stated: What a submitter calls it, such as ``NVIDIA H200-SXM5-141GB``.

    Returns:
        A key of the shipped devices where there is one, else a name of that form; ``unknown`` for an empty text.
    """
    text = " ".join(stated.split())
    for pattern, name in _DEVICE_NAMES:
        if match := re.search(rf"(?<![A-Za-z0-9]){pattern}", text, re.IGNORECASE):
            canonical = match.expand(name).rstrip("_").upper()
            return known_as(canonical, devices()) or canonical
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")[:60] or "unknown"
