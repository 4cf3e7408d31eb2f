"""The name of a device, in the form of the shipped hardware table, from what a system's description calls it."""

import re

from scalecurve.hardware.devices import devices
from scalecurve.hardware.names import known_as

_UNKNOWN = "unknown"
# The first that matches; a board of another form factor is another device.
_DEVICES = (
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


def device_name(stated: str) -> str:
    """The canonical name of a device.

    Args:
        stated: What a submitter calls it, such as ``NVIDIA H200-SXM5-141GB``.

    Returns:
        A key of the shipped devices where there is one, else a name of that form; ``unknown`` for an empty text.
    """
    text = " ".join(stated.split())
    for pattern, name in _DEVICES:
        if match := re.search(rf"(?<![A-Za-z0-9]){pattern}", text, re.IGNORECASE):
            canonical = match.expand(name).rstrip("_").upper()
            return known_as(canonical, devices()) or canonical
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")[:60] or _UNKNOWN
