from __future__ import annotations

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.monitor.cpu_load import CpuMeter, CpuUse, foreign_share, stolen_share
from scalecurve_worker.monitor.metrics import BUCKETS, MetricsError, StepCounters, open_metrics
from scalecurve_worker.monitor.nvml import DeviceMonitor, Sample, summarise, visible_uuid
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.topology import environment, topology
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.communicator import SingleProcess
from tests.worker.worker_ranks import make_trial


@given(st.floats(0, 100), st.floats(0, 100), st.floats(1, 50), st.integers(1, 64))
def test_a_share_is_a_share(busy: float, own: float, wall: float, cores: int) -> None:
    share = foreign_share(CpuUse(busy, 0.0, own, wall), cores, own)
    assert share is not None
    assert 0 <= share <= 1
    assert busy > own or share == 0


def test_what_the_hypervisor_took_is_not_a_neighbours() -> None:
    use = CpuUse(busy_s=1.0, stolen_s=0.8, own_s=1.0, wall_s=2.0)
    assert foreign_share(use, 2, 1.0) == 0
    assert stolen_share(use, 2) == pytest.approx(0.2)
    assert stolen_share(use._replace(wall_s=0.9), 2) is None


def test_too_short_to_tell() -> None:
    assert foreign_share(CpuUse(0.5, 0.0, 0.0, 0.9), 1, 0.0) is None


def test_a_neighbour_on_the_same_core_is_seen() -> None:
    core = max(os.sched_getaffinity(0))
    spin = f"import os, time; os.sched_setaffinity(0, {{{core}}}); t = time.time()\nwhile time.time() - t < 20: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as own_child:
        meter = CpuMeter([core])
        time.sleep(0.3)
        meter.begin()
        time.sleep(1.1)
        meter.end()
        used = meter.used()
        own_child.kill()
    assert used is not None
    # The child is this process's own, and no neighbour; without it the core's load is somebody else's.
    assert used.own_s > 0.2
    as_neighbour = foreign_share(used, 1, 0.0)
    assert as_neighbour is not None
    assert as_neighbour > 0.2


def test_metrics_are_scraped_by_name_and_label() -> None:
    os.environ["SCALECURVE_METRICS_PORT"] = "0"
    metrics = open_metrics(make_trial(2), 1, 1)
    del os.environ["SCALECURVE_METRICS_PORT"]
    assert metrics is not None
    metrics.observe([0.002, 0.004], 8)
    metrics.exposed(0.001)
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    labels = '{experiment="tests",rank="1",trial="weak-2-r1",workers="2"}'
    for line in (
        f"scalecurve_step_duration_seconds_count{labels} 2.0",
        f"scalecurve_step_duration_seconds_sum{labels} 0.006",
        f"scalecurve_samples_total{labels} 8.0",
        f"scalecurve_steps_total{labels} 2.0",
        f"scalecurve_exposed_communication_seconds{labels} 0.001",
    ):
        assert line in text
    found = {
        parts[1]: float(parts[2])
        for line in text.splitlines()
        if (parts := re.split(r'^scalecurve_step_duration_seconds_bucket.*le="([^"]+)".* ', line)) and len(parts) == 3
    }
    assert len(found) == len(BUCKETS) + 1
    assert {bound: count for bound, count in found.items() if 0.001 < float(bound) < 0.006} == {
        "0.0012589": 0,
        "0.0015849": 0,
        "0.0019953": 0,
        "0.0025119": 1,
        "0.0031623": 1,
        "0.0039811": 1,
        "0.0050119": 2,
    }
    assert 'scalecurve_trial_info{experiment="tests"' in text
    metrics.close()


def test_a_scrape_sees_the_counters_of_one_moment() -> None:
    counters = StepCounters(("tests", "weak-1-r1", "1", "0"))
    ended = threading.Event()

    def observe() -> None:
        while not ended.is_set():
            counters.observe([0.5] * 64, 64 * 4)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=observe)
    thread.start()
    try:
        for _ in range(300):
            durations, samples, steps, *_ = counters.collect()
            (count,) = (each.value for each in durations.samples if each.name.endswith("_count"))
            (seconds,) = (each.value for each in durations.samples if each.name.endswith("_sum"))
            assert (seconds * 2, samples.samples[0].value / 4, steps.samples[0].value) == (count, count, count)
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(switching)


def test_exposed_communication_that_was_not_measured_is_not_shown_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "0")
    metrics = open_metrics(make_trial(), 0, 0)
    assert metrics is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=5) as answer:
        assert "scalecurve_exposed_communication_seconds{" not in answer.read().decode()
    metrics.close()


def test_a_program_of_the_users_own_has_no_model_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "0")
    metrics = open_metrics(make_trial(workload={"program": "custom", "command": ["train"]}), 0, 0)
    assert metrics is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=5) as answer:
        assert ',model="",' in answer.read().decode()
    metrics.close()


def is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


def test_workers_of_two_nodes_that_one_process_keeps_have_a_port_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a chief's with parameter servers: both are the first of their node."""
    port = next(port for port in range(20000, 30000, 7) if is_free(port) and is_free(port + 1))
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", str(port))
    monkeypatch.setenv("SCALECURVE_TRIAL", json.dumps(make_trial(workers=2).wire()))
    where = topology(RankIdentity(0, 1, 0), "cpu:0")
    topologies = [where.model_copy(update={"rank": rank, "host": f"node-{rank}"}) for rank in range(2)]
    session = Session(communicator=SingleProcess(), topologies=topologies, world=2)
    served = [worker.metrics for worker in session.workers]
    assert [each.port for each in served if each] == [port, port + 1]
    for each in served:
        assert each is not None
        each.close()


def test_buckets_are_a_fixed_grid() -> None:
    assert BUCKETS[0] == 1e-4
    assert BUCKETS[-1] == 100.0
    assert all(1.25 < b / a < 1.27 for a, b in itertools.pairwise(BUCKETS))


def test_a_metrics_port_that_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "http")
    with pytest.raises(MetricsError, match="SCALECURVE_METRICS_PORT='http'"):
        open_metrics(make_trial(), 0, 0)


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


def test_topology_of_a_cpu_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("POD_NAME", "worker-3")
    found = topology(RankIdentity(3, 4, 1))
    cores = sorted(os.sched_getaffinity(0))
    assert found.device == "cpu:" + ",".join(map(str, cores))
    assert (found.rank, found.local_rank, found.pod, found.threads) == (3, 1, "worker-3", 2)
    assert found.device_name


def test_mpiruns_own_variables_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of ranks would make every point of a curve differ from the next, and the folder tells of a machine."""
    for name in ("num_procs", "initial_wdir", "cpu_type", "PREFIXES", "coll"):
        monkeypatch.setenv(f"OMPI_MCA_{name}", "x")
    assert [name for name in environment() if name.startswith("OMPI_MCA_")] == ["OMPI_MCA_coll"]


def test_secrets_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_SECRET_TOKEN", "x")
    monkeypatch.setenv("UNRELATED", "x")
    found = environment()
    assert found["NCCL_ALGO"] == "Ring"
    assert "NCCL_SECRET_TOKEN" not in found
    assert "UNRELATED" not in found
