"""Power, clocks, temperature and energy of a GPU from NVML, sampled next to the steps and never inside one."""

import importlib
import statistics
import threading
import time
from functools import reduce
from operator import or_
from types import ModuleType
from typing import NamedTuple

from scalecurve_api.record.rank import DeviceSamples, Usage
from scalecurve_worker.monitor.usage import thinned

_FIRST_S = 0.25
_EVERY_S = 1.0
_POWER_CAP = 0x4
# Clocks event reasons (nvml.h) that lower a number and are no setting of the user's.
_THROTTLES = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


class Sample(NamedTuple):
    """One look at the device."""

    power_w: float
    sm_mhz: int
    temperature_c: int
    reasons: int
    used: float | None = None
    """Share of the last sample period in which a kernel was running, 0 to 1."""
    at_s: float = 0.0
    """Since the first window opened."""


class DeviceMonitor:
    """Samples one GPU about once a second while a window is open."""

    def __init__(self, nvml: ModuleType, uuid: str) -> None:
        """Raises pynvml's error where the device does not answer."""
        self._nvml, self._handle = nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)
        self._samples: list[Sample] = []
        self._began_s = 0.0
        self._others = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def energy_mj(self) -> int | None:
        """Read the device's energy counter, in mJ since the driver was loaded; None where it has none."""
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        except self._nvml.NVMLError:
            return None

    def resume(self) -> None:
        if self._thread is None:
            self._began_s = time.monotonic()
            self._thread = threading.Thread(target=self._watch, name="scalecurve-nvml", daemon=True)
            self._thread.start()
        self._wake.set()

    def pause(self) -> None:
        self._wake.clear()

    def result(self, ranks_on_device: int) -> DeviceSamples:
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        return summarize(self._samples, max(0, self._others - ranks_on_device))

    def usage(self) -> list[Usage]:
        """Return the usage that NVML reported with each sample."""
        shares = [(sample.at_s, sample.used) for sample in self._samples if sample.used is not None]
        return thinned([Usage(until_s=round(at_s, 3), share=used) for at_s, used in shares])

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            delay = _FIRST_S
            while self._wake.is_set() and not self._closing.wait(delay):
                if self._wake.is_set():
                    self._look()
                delay = _EVERY_S

    def _look(self) -> None:
        nvml, handle = self._nvml, self._handle
        try:
            self._samples.append(
                Sample(
                    power_w=nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                    sm_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                    temperature_c=nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                    reasons=nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
                    used=self._utilization(),
                    at_s=time.monotonic() - self._began_s,
                )
            )
            self._others = max(self._others, len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)))
        except nvml.NVMLError:
            return

    def _utilization(self) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu) / 100
        except self._nvml.NVMLError:
            return None


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def open_monitor(uuid: str) -> DeviceMonitor | None:
    """Open a monitor of the GPU; None where NVML does not know it."""
    nvml = _load()
    if nvml is None:
        return None
    try:
        return DeviceMonitor(nvml, uuid)
    except nvml.NVMLError:
        return None


def summarize(samples: list[Sample], other_processes: int) -> DeviceSamples:
    """Summarize samples by means and extremes; a throttle reason counts when one sample has it."""
    seen = reduce(or_, (sample.reasons for sample in samples), 0)
    return DeviceSamples(
        count=len(samples),
        power_w_mean=statistics.fmean(s.power_w for s in samples) if samples else None,
        sm_mhz_min=min((s.sm_mhz for s in samples), default=None),
        sm_mhz_mean=statistics.fmean(s.sm_mhz for s in samples) if samples else None,
        temperature_c_max=max((s.temperature_c for s in samples), default=None),
        throttle_reasons=[text for bit, text in _THROTTLES.items() if seen & bit],
        power_capped=bool(seen & _POWER_CAP),
        other_processes=other_processes,
        utilization_mean=_mean([s.used for s in samples if s.used is not None]),
    )


def driver_version() -> str | None:
    """Return the NVIDIA driver's version; None where NVML does not answer."""
    nvml = _load()
    return None if nvml is None else str(nvml.nvmlSystemGetDriverVersion())


def visible_uuid(index: int, visible: str | None) -> str | None:
    """Return the UUID of CUDA device ``index``, by ``CUDA_VISIBLE_DEVICES`` and NVML; None where NVML does not answer.

    CUDA numbers as NVML does where ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``.
    """
    entries = [entry.strip() for entry in (visible or "").split(",") if entry.strip()]
    entry = entries[index] if index < len(entries) else str(index)
    if entry.startswith("GPU-") or not entry.isdigit():
        return entry if entry.startswith("GPU-") else None
    nvml = _load()
    if nvml is None:
        return None
    try:
        return str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(int(entry))))
    except nvml.NVMLError:
        return None


def device_name(uuid: str) -> str | None:
    """Return the name of a GPU; None where NVML does not know it."""
    nvml = _load()
    if nvml is None:
        return None
    try:
        name = nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByUUID(uuid))
    except nvml.NVMLError:
        return None
    return str(name.decode() if isinstance(name, bytes) else name)


def nvlink_between(uuid: str, other_uuid: str) -> bool | None:
    """Return whether NVLink, or NVSwitch, connects two GPUs of this machine; None where NVML cannot tell."""
    nvml = _load()
    if nvml is None:
        return None
    try:
        one, other = (nvml.nvmlDeviceGetHandleByUUID(each) for each in (uuid, other_uuid))
        return bool(nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK)
    except nvml.NVMLError:
        return None


def _load() -> ModuleType | None:
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
