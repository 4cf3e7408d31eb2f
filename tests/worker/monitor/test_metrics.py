from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_api.record.termination import read
from tests.worker.pods import on_nodes
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
