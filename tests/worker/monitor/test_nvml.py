from __future__ import annotations

import pytest

from scalecurve_worker.monitor.nvml import DeviceMonitor, Sample, summarise, visible_uuid


@pytest.mark.parametrize(
    ("visible", "index", "uuid"),
    [("GPU-b,GPU-c", 1, "GPU-c"), ("MIG-a", 0, None), ("GPU-b", 0, "GPU-b")],
)
def test_the_uuid_of_a_gpu_by_its_number(visible: str, index: int, uuid: str | None) -> None:
    assert visible_uuid(index, visible) == uuid


def test_the_uuid_of_a_gpu_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nvml:
        NVMLError = KeyError
        nvmlDeviceGetHandleByIndex = staticmethod(lambda index: index)
        nvmlDeviceGetUUID = staticmethod(lambda handle: {0: "GPU-a", 2: "GPU-c"}[handle])

    monkeypatch.setattr("scalecurve_worker.monitor.nvml._load", lambda: Nvml)
    assert [visible_uuid(0, None), visible_uuid(1, "0,2"), visible_uuid(1, None)] == ["GPU-a", "GPU-c", None]
    monkeypatch.setattr("scalecurve_worker.monitor.nvml._load", lambda: None)
    assert visible_uuid(0, None) is None


def test_device_samples_keep_the_worst() -> None:
    samples = [Sample(600.0, 1900, 60, 0x4), Sample(700.0, 1500, 71, 0x40 | 0x1)]
    found = summarise(samples, other_processes=1)
    assert (found.count, found.power_w_mean, found.sm_mhz_min, found.sm_mhz_mean) == (2, 650.0, 1500, 1700.0)
    assert (found.temperature_c_max, found.throttle_reasons) == (71, ["hardware thermal slowdown"])
    assert found.power_capped
    assert summarise([], 0).power_w_mean is None


def test_a_device_that_is_not_there_is_not_watched() -> None:
    monitor = DeviceMonitor("GPU-00000000-0000-0000-0000-000000000000")
    monitor.resume()
    assert not monitor.available
    assert monitor.energy_mj() is None
    assert monitor.result() is None
