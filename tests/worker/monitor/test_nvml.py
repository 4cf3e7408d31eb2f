from __future__ import annotations

import pytest

from scalecurve_worker.monitor.nvml import DeviceMonitor, Sample, open_monitor, summarize, visible_uuid


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
    found = summarize(samples, other_processes=1)
    assert (found.count, found.power_w_mean, found.sm_mhz_min, found.sm_mhz_mean) == (2, 650.0, 1500, 1700.0)
    assert (found.temperature_c_max, found.throttle_reasons) == (71, ["hardware thermal slowdown"])
    assert found.power_capped
    assert summarize([], 0).power_w_mean is None


def test_utilization_is_the_mean_of_the_samples_that_have_it() -> None:
    samples = [Sample(600.0, 1900, 60, 0, used) for used in (0.5, None, 1.0)]
    assert summarize(samples, 0).utilization_mean == 0.75
    assert summarize(samples[1:2], 0).utilization_mean is None


def test_a_driver_without_utilization_still_gives_the_rest() -> None:
    class Nvml:
        NVMLError = KeyError
        NVML_CLOCK_SM = 0
        nvmlDeviceGetHandleByUUID = staticmethod(lambda uuid: uuid)
        nvmlDeviceGetPowerUsage = staticmethod(lambda handle: 300_000)
        nvmlDeviceGetClockInfo = staticmethod(lambda handle, kind: 1500)
        nvmlDeviceGetTemperature = staticmethod(lambda handle, kind: 50)
        NVML_TEMPERATURE_GPU = 0
        nvmlDeviceGetCurrentClocksThrottleReasons = staticmethod(lambda handle: 0)
        nvmlDeviceGetComputeRunningProcesses = staticmethod(lambda handle: [])

        @staticmethod
        def nvmlDeviceGetUtilizationRates(handle: str) -> None:
            raise KeyError("not supported")

    monitor = DeviceMonitor(Nvml, "GPU-a")  # type: ignore[arg-type]
    monitor._look()
    found = monitor.result(ranks_on_device=0)
    assert (found.count, found.power_w_mean, found.utilization_mean) == (1, 300.0, None)


def test_a_device_that_is_not_there_is_not_watched() -> None:
    assert open_monitor("GPU-00000000-0000-0000-0000-000000000000") is None
