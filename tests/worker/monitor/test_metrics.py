from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_api.record.termination import read
from scalecurve_worker.monitor.metrics import BUCKETS, MetricsError, StepCounters, open_metrics
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.topology import topology
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.communicator import SingleProcess
from tests.waiting import PATIENCE_S
from tests.worker.pods import on_nodes
from tests.worker.ports import free_pair
from tests.worker.worker_ranks import make_trial, rank_environment


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def started(tmp_path: Path, module: str, workers: int, nodes: int, **environment: str) -> list[str]:
    """What one process said that must not have begun, or that went on alone."""
    trial = on_nodes(make_trial(workers), nodes)
    message = tmp_path / "termination"
    done = subprocess.run(
        [sys.executable, "-m", module],
        env=rank_environment(tmp_path / "out", trial, SCALECURVE_TERMINATION_LOG=str(message), **environment),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    said = read(message.read_text()) if message.exists() else None
    return [*done.stderr.splitlines(), *(f"{each.reason}: {each.message}" for each in (said.failures if said else []))]


@pytest.mark.processes
def test_a_rank_whose_metrics_port_is_taken_says_so_in_one_line(tmp_path: Path, taken: int) -> None:
    lines = started(tmp_path, "scalecurve_worker", 1, 1, SCALECURVE_METRICS_PORT=str(taken))
    (line,) = [line for line in lines if line.startswith("scalecurve:")]
    assert f"SCALECURVE_METRICS_PORT: cannot listen on port {taken}" in line


def test_metrics_are_scraped_by_name_and_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "0")
    metrics = open_metrics(make_trial(2), 1, 1)
    assert metrics is not None
    metrics.observe([0.002, 0.004], 8)
    metrics.exposed(0.001)
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=PATIENCE_S) as answer:
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
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=PATIENCE_S) as answer:
        assert "scalecurve_exposed_communication_seconds{" not in answer.read().decode()
    metrics.close()


def test_a_program_of_the_users_own_has_no_model_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "0")
    metrics = open_metrics(make_trial(workload={"program": "custom", "command": ["train"]}), 0, 0)
    assert metrics is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=PATIENCE_S) as answer:
        assert ',model="",' in answer.read().decode()
    metrics.close()


def test_workers_of_two_nodes_that_one_process_keeps_have_a_port_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a chief's with parameter servers: both are the first of their node."""
    port = free_pair()
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


def answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(("address", "elsewhere"), [("127.0.0.1", False), ("", True)])
def test_metrics_are_served_where_the_engine_says(
    monkeypatch: pytest.MonkeyPatch, address: str, elsewhere: bool
) -> None:
    """Every address of 127.0.0.0/8 is this machine's; a socket on 127.0.0.1 answers at no other."""
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "0")
    monkeypatch.setenv("SCALECURVE_METRICS_ADDRESS", address)
    metrics = open_metrics(make_trial(), 0, 0)
    assert metrics is not None
    assert answers("127.0.0.1", metrics.port)
    assert answers("127.0.0.2", metrics.port) == elsewhere
    metrics.close()


def test_an_address_that_is_not_this_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "9400")
    monkeypatch.setenv("SCALECURVE_METRICS_ADDRESS", "203.0.113.1")
    with pytest.raises(MetricsError, match=r"SCALECURVE_METRICS_PORT: cannot listen on port 9400 of 203\.0\.113\.1: "):
        open_metrics(make_trial(), 0, 0)


def test_buckets_are_a_fixed_grid() -> None:
    assert BUCKETS[0] == 1e-4
    assert BUCKETS[-1] == 100.0
    assert all(1.25 < b / a < 1.27 for a, b in itertools.pairwise(BUCKETS))


def test_a_metrics_port_that_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_METRICS_PORT", "http")
    with pytest.raises(MetricsError, match="SCALECURVE_METRICS_PORT='http'"):
        open_metrics(make_trial(), 0, 0)
