"""What submitters call a device, and its name here."""

import pytest

from scalecurve.corpus.device_names import device_name

DEVICES = {
    "NVIDIA H100-SXM5-80GB": "H100",
    "NVIDIA H200-NVL-141GB": "H200_NVL",
    "H100 NVL Tensor Core GPU (PCIe)": "H100_NVL",
    "NVIDIA Blackwell GPU (GB200)": "GB200",
    "NVIDIA Blackwell GPU (B200-SXM-180GB)": "B200",
    "NVIDIA A100 - PCIe - 80 GB": "A100_PCIE",
    "AMD Instinct MI325X 256GB HBM3E DLC": "MI325X",
    "TPU-v5p": "TPU_V5P",
    "AMD Radeon RX 7900 XTX": "RX_7900_XTX",
    "NVIDIA RTX A5000": "RTX_A5000",
    "Intel(R) Gaudi(R) 2 AI Accelerator": "GAUDI_2",
    "NVIDIA GeForce RTX 4090": "RTX_4090",
    "A new\x1bdevice": "A_NEW_DEVICE",
    "": "unknown",
}
"""What submitters call a device → its name."""


@pytest.mark.parametrize("stated", DEVICES)
def test_device_names(stated: str) -> None:
    assert device_name(stated) == DEVICES[stated]
