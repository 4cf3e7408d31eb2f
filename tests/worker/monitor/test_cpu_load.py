from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.monitor.cpu_load import CpuMeter, CpuUse, foreign_share, own_share, stolen_share


@given(st.floats(0, 100), st.floats(0, 100), st.floats(1, 50), st.integers(1, 64))
def test_a_share_is_a_share(busy: float, own: float, wall: float, cores: int) -> None:
    share = foreign_share(CpuUse(busy, 0.0, own, wall), cores, own)
    assert share is not None
    assert 0 <= share <= 1
    assert busy > own or share == 0


def test_what_the_hypervisor_took_is_not_a_neighbors() -> None:
    use = CpuUse(busy_s=1.0, stolen_s=0.8, own_s=1.0, wall_s=2.0)
    assert foreign_share(use, 2, 1.0) == 0
    assert stolen_share(use, 2) == pytest.approx(0.2)
    assert stolen_share(use._replace(wall_s=0.9), 2) is None


def test_the_share_of_the_cores_that_a_rank_used_itself() -> None:
    assert own_share(CpuUse(busy_s=3.0, stolen_s=0.0, own_s=1.5, wall_s=2.0), 1) == pytest.approx(0.75)


def test_too_short_to_tell() -> None:
    assert foreign_share(CpuUse(0.5, 0.0, 0.0, 0.9), 1, 0.0) is None


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_neighbor_on_the_same_core_is_seen() -> None:
    core = max(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as own_child:
        assert own_child.stdout is not None
        own_child.stdout.readline()
        meter = CpuMeter([core])
        meter.begin()
        began, before = time.monotonic(), cpu_seconds(own_child.pid)
        # However busy the machine is: until the child has had its time.
        while time.monotonic() - began < 1.1 or cpu_seconds(own_child.pid) - before < 0.3:
            time.sleep(0.05)
        meter.end()
        used = meter.used()
        own_child.kill()
    assert used is not None
    # The child is this process's own, and no neighbor; without it the core's load is somebody else's.
    assert used.own_s > 0.25
    assert used.busy_s > 0.25
    as_neighbor, as_own = foreign_share(used, 1, 0.0), foreign_share(used, 1, used.own_s)
    assert as_neighbor is not None
    assert as_own is not None
    assert as_own < as_neighbor
