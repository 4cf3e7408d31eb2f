"""Usage over time: of cores from the meter's reads, of GPUs from NVML's samples, in few entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.record.rank import Usage
from scalecurve_worker.monitor.cpu_load import CpuMeter, CpuUse
from scalecurve_worker.monitor.nvml import DeviceMonitor, Sample
from scalecurve_worker.monitor.usage import MOST, thinned


def pairs(usage: list[Usage]) -> list[tuple[float, float]]:
    return [(each.until_s, each.share) for each in usage]


def test_a_share_of_the_cores_from_each_read_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = CpuMeter([0, 1])
    reads = iter([(0.0, 10.0), (2.0, 12.0), (2.1, 12.5), (3.0, 14.0)])  # own CPU seconds, and the clock

    def read() -> CpuUse:
        own_s, wall_s = next(reads)
        return CpuUse(own_s, 0.0, own_s, wall_s)

    monkeypatch.setattr(meter, "_read", read)
    meter.begin()
    for _ in range(3):
        meter.end()
    # The second read came half a second after the first, too early for the kernel's ticks.
    assert pairs(meter.usage()) == [(2.0, 0.5), (4.0, 0.25)]


def test_nothing_where_the_kernel_does_not_say() -> None:
    assert CpuMeter([0]).usage() == []


def test_a_gpu_as_nvml_told() -> None:
    class Nvml:
        nvmlDeviceGetHandleByUUID = staticmethod(lambda uuid: uuid)

    monitor = DeviceMonitor(Nvml, "GPU-a")  # type: ignore[arg-type]
    monitor._samples = [
        Sample(600.0, 1900, 60, 0, used, at_s) for at_s, used in ((0.25, 0.5), (1.25, None), (2.25, 1.0))
    ]
    assert pairs(monitor.usage()) == [(0.25, 0.5), (2.25, 1.0)]


@given(st.lists(st.tuples(st.floats(0.5, 2), st.floats(0, 1)), max_size=5 * MOST))
def test_thinning_keeps_the_end_and_the_mean(entries: list[tuple[float, float]]) -> None:
    usage, at_s = [], 0.0
    for seconds, share in entries:
        at_s += seconds
        usage.append(Usage(until_s=at_s, share=share))
    few = thinned(usage)
    assert len(few) <= MOST
    assert [each.until_s for each in few[-1:]] == [each.until_s for each in usage[-1:]]
    if usage:
        assert used_s(few) == pytest.approx(used_s(usage), abs=2e-4 * at_s)


def used_s(usage: list[Usage]) -> float:
    starts = [0.0, *(each.until_s for each in usage)]
    return sum(each.share * (each.until_s - start) for each, start in zip(usage, starts, strict=False))
