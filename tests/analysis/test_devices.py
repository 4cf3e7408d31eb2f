import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.hardware.devices import (
    HardwareError,
    device_name,
    devices,
    find_device,
    find_link,
    links,
    precision_of,
)
from scalecurve_models.networks import shipped
from scalecurve_models.paleo.parallel import predict_hybrid
from scalecurve_models.paleo.scaling import Platform, predict_scaling, predict_step
from scalecurve_models.paleo.terms import PaleoError, Variant
from tests.models.paleo.paleo_rules_cases import K80, NETWORKS, ON, PLATFORMS

DEVICE_NAMES = {
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


@given(NETWORKS, PLATFORMS, st.integers(1, 2000))
def test_time_grows_with_the_batch_and_time_a_sample_falls(name, platform, batch):
    small, large = (predict_step(shipped(name), platform, batch=b) for b in (batch, 2 * batch))
    assert small.compute_ms < large.compute_ms <= 2 * small.compute_ms


def test_names_that_are_not_known():
    with pytest.raises(HardwareError, match=r"device 'k800' is unknown; did you mean 'K80'\?"):
        find_device("k800")
    with pytest.raises(HardwareError, match=r"link 'ethernet21' is unknown; did you mean 'ethernet"):
        find_link("ethernet21")
    with pytest.raises(HardwareError, match="device K80: no peak for 'bf16'; it has fp32"):
        K80.peak("bf16")
    with pytest.raises(HardwareError, match="unknown precision 'fp8'; expected one of"):
        precision_of("fp8")
    with pytest.raises(PaleoError, match="revision 'old': expected one of head, release"):
        Variant("old")
    with pytest.raises(PaleoError, match="workers: expected one or more numbers"):
        predict_scaling(shipped("nin"), ON, batch=1, workers=[])


def test_corrected_hybrid_fetches_nothing_at_home_and_counts_bytes():
    net, on = shipped("alex_v2_2gpu"), Platform(K80, find_link("aws"), 1.0, 1.0)
    plain, corrected = (
        predict_hybrid(net, on, batch=8, workers=2, variant=Variant(corrected=fixed)) for fixed in (False, True)
    )
    # concat7 joins half of its values, from split 0, where it is itself.
    values = 8 * 2048 * 4 / 2**30 / 0.25 * 1e3
    assert plain[0].forward_ms - corrected[0].forward_ms == pytest.approx(values)
    assert corrected[1].forward_ms < plain[1].forward_ms


def test_every_device_and_link_has_a_date_and_a_source():
    for entry in (*devices().values(), *links().values()):
        assert entry.as_of is not None, entry.key
        assert entry.source, entry.key
    assert {"K80", "K80_GPU", "P100", "V100", "T4", "A100", "H100", "H200", "B300", "GB200", "GB300"} <= set(devices())


def test_paleos_devices_and_links_have_paleos_figures():
    known = {"K20": (1000, 3520, 208), "K20X": (1000, 3935, 250), "K40": (745, 4290, 288), "K80": (560, 5600, 480),
             "TITAN_X": (1000, 6144, 336.5), "GEFORCE_780_TI": (875, 5040, 336), "GEFORCE_750_M": (941, 722.7, 80),
             "CPU_I7": (210000, 289, 68)}  # fmt: skip
    assert {key: (d.clock_mhz, d.peak(), d.memory_gb_s) for key, d in devices().items() if key in known} == known
    gbps = {"aws": 2, "ethernet": 10, "ethernet20": 20, "infiniband": 70, "pcie2": 64, "pcie3": 128}
    assert {key: link.gbps for key, link in links().items() if key in gbps} == gbps


def test_the_worker_names_the_same_peaks():
    flops = pytest.importorskip("scalecurve_worker.torch.flops")
    names = {
        "P100": "Tesla P100-SXM2-16GB", "V100": "Tesla V100-SXM2-16GB", "T4": "Tesla T4", "A10": "NVIDIA A10",
        "A100": "NVIDIA A100-SXM4-80GB", "L4": "NVIDIA L4", "L40S": "NVIDIA L40S", "H100": "NVIDIA H100 80GB HBM3",
        "H200": "NVIDIA H200", "B200": "NVIDIA B200", "B300": "NVIDIA B300 SXM6 AC", "GB200": "NVIDIA GB200",
        "GB300": "NVIDIA GB300",
    }  # fmt: skip
    for key, name in names.items():
        for precision, gflops in find_device(key).gflops.items():
            assert flops.device_peak_flops(name, precision) == pytest.approx(gflops * 1e9), (key, precision)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: {title: a, clock_mhz: -1, gflops: {fp32: 1}, memory_gb_s: 1, source: s}", "A: clock_mhz: "),
        ("A: {title: a, clock_mhz: 1, gflops: {fp7: 1}, memory_gb_s: 1, source: s}", "A: gflops.fp7"),
        ("A: {title: a, clock_mhz: 1, gflops: {fp32: .inf}, memory_gb_s: 1, source: s}", "A: gflops.fp32: "),
        ("A: 3", "A: expected a mapping"),
        ("[1]", "expected a mapping of names to entries"),
        ("{", "is not YAML"),
        ("A: {}\nB: {}", "A: source: field required"),
        ("A: {1: 2}", "A: expected a mapping"),
        ("A: {title: a, source: '', clock_mhz: 1, gflops: {fp32: 1}, memory_gb_s: 1}", "A: source: "),
    ],
)
def test_device_files_that_cannot_be(tmp_path, text, message):
    file = tmp_path / "device.yaml"
    file.write_text(text)
    with pytest.raises(HardwareError, match=message) as error:
        find_device(str(file))
    assert "\n" not in str(error.value)


def test_a_device_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("MINE: {title: mine, clock_mhz: 1000, gflops: {fp32: 100}, memory_gb_s: 10, source: me}")
    assert find_device(str(file)).peak() == 100
    assert find_link("2.5Gbps").bytes_per_second == pytest.approx(312_500_000)
    file.write_text(file.read_text() + "\nTHEIRS: {clock_mhz: 1, gflops: {fp32: 7}, memory_gb_s: 1, source: them}")
    assert find_device(f"{file}:theirs").peak() == 7
    with pytest.raises(HardwareError, match=r"2 entries, expected one device: name one of them as .*:MINE"):
        find_device(str(file))
    with pytest.raises(HardwareError, match=r"mine\.yaml: device 'ours' is unknown"):
        find_device(f"{file}:ours")
    with pytest.raises(HardwareError, match="cannot be read"):
        find_device(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("typed", "key"), [("h200", "H200"), ("Titan-X", "TITAN_X"), ("geforce 780 ti", "GEFORCE_780_TI")]
)
def test_a_device_is_found_however_its_name_is_spelt(typed: str, key: str):
    assert find_device(typed).key == key
    assert find_link("NVLink-4").key == "nvlink4"


def test_a_small_b_is_bits_and_a_large_one_bytes():
    bits = [find_link(rate).gbps for rate in ("25gbps", "25Gbps", "25 Gbit/s", "2.5e1Gb/s")]
    assert bits == [25] * 4
    assert [find_link(rate).gbps for rate in ("25GBps", "25GB/s")] == [200] * 2
    for rate in ("0gbps", ".gbps", "1e999gbps"):
        with pytest.raises(HardwareError, match="expected a positive rate such as 25gbps"):
            find_link(rate)
    for neither in ("25GBPS", "-1gbps", "25"):
        with pytest.raises(HardwareError, match="is unknown"):
            find_link(neither)


@pytest.mark.parametrize("stated", DEVICE_NAMES)
def test_a_device_has_one_name_whatever_it_is_called(stated: str):
    assert device_name(stated) == DEVICE_NAMES[stated]
