from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_local.devices.cores import CpuLoad, measure_load

IDLE = "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n"


def test_neighbors_and_steal_are_told_apart(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(IDLE)
    # In one second, 100 ticks, of two cores: one was busy throughout, and 40 ticks were stolen from the other.
    later = "cpu0 80 0 20 0 0 0 0 0 0 0\ncpu1 0 0 0 60 0 0 0 40 0 0\n"
    load = measure_load([0, 1], stat=stat, sleep=lambda _: stat.write_text(later) and None)
    assert load == CpuLoad(busy=pytest.approx(0.5), stolen=pytest.approx(0.2))


def test_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    assert measure_load([0], stat=tmp_path / "none", sleep=lambda _: None) is None
    (tmp_path / "stat").write_text("intr 12\n")
    assert measure_load([0], stat=tmp_path / "stat", sleep=lambda _: None) is None
