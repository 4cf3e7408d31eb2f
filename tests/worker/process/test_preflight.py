from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.process import preflight as wrong_start
from scalecurve_worker.process.preflight import (
    PreflightError,
    check_hostfile,
    check_port,
    shared_memory,
    world_size_mismatch,
)
from tests.worker.ports import free_port
from tests.worker.worker_ranks import make_trial, rank_environment


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def test_a_missing_host_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PreflightError, match=r"no host file .*hostfile \(No such file .*SCALECURVE_HOSTFILE can set another"
    ):
        check_hostfile(tmp_path / "hostfile", 1)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("a slots=2\nb slots=2\n", 4),
        ("a:2\nb:2\n", 4),
        ("a\nb\n", 2),
        ("# a slots=9\n\na slots = 3 # c:9\n", 3),
        ("a.b:1 max_slots=7\n", 1),
        ("", 0),
    ],
)
def test_a_host_file_has_room_for_so_many(tmp_path: Path, text: str, slots: int) -> None:
    hosts = tmp_path / "hostfile"
    hosts.write_text(text)
    check_hostfile(hosts, slots)
    with pytest.raises(PreflightError, match=f"has {slots} slots for {slots + 1} workers: slotsPerWorker"):
        check_hostfile(hosts, slots + 1)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=20), st.sampled_from(["{} slots={}", "{}:{}"]))
def test_slots_are_added_up(slots: list[int], form: str) -> None:
    lines = [form.format(f"job-worker-{at}.job.ns.svc", count) for at, count in enumerate(slots)]
    assert sum(map(wrong_start._slots, lines)) == sum(slots)


def test_a_port_that_is_taken_is_named(taken: int) -> None:
    with pytest.raises(PreflightError, match=f"^port {taken}, for sshd, is in use by another process of this pod"):
        check_port(taken, "for sshd")
    check_port(free_port(), "for sshd")


def test_shared_memory_is_missing_or_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_memory(tmp_path / "shm").startswith(f"no {tmp_path}/shm (No such file or directory): NCCL, Open MPI")
    real = os.statvfs(tmp_path)
    for mib, said in ((64, "has 64 MiB: NCCL and data loaders crash"), (65, "")):
        blocks = mib * (1 << 20) // real.f_frsize
        fields = (real.f_bsize, real.f_frsize, blocks, *real[3:])
        monkeypatch.setattr(os, "statvfs", lambda path, fields=fields: os.statvfs_result(fields))
        found = shared_memory(tmp_path)
        assert said in found
        assert bool(said) == bool(found)


def test_a_world_of_another_size_is_explained() -> None:
    assert world_size_mismatch(4, 4, {}) == ""
    assert world_size_mismatch(4, 2, {}) == "world size is 2, expected 4"
    assert world_size_mismatch(4, 1, {}).endswith("; no launcher's variable is set: each worker runs alone, as rank 0")
    assert "OMPI_COMM_WORLD_SIZE=1: each worker runs alone" in world_size_mismatch(4, 1, {"OMPI_COMM_WORLD_SIZE": "1"})


@pytest.mark.processes
def test_a_lonely_worker_says_that_it_is_alone(tmp_path: Path) -> None:
    code = "from scalecurve_worker.record.session import Session; Session()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=rank_environment(tmp_path / "out", make_trial(2)),
        capture_output=True,
        text=True,
    )
    assert "scalecurve: world size is 1, expected 2; no launcher's variable is set" in done.stderr
