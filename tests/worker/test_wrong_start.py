"""A pod that cannot begin, or begins wrongly, says so in one line that names what to do."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.record.termination import read
from scalecurve_worker.launch import sshd
from scalecurve_worker.process import preflight as wrong_start
from scalecurve_worker.process.preflight import (
    PreflightError,
    check_hostfile,
    check_port,
    shared_memory,
    world_size_mismatch,
)
from tests.worker.pods import free_port, on_nodes
from tests.worker.worker_ranks import make_trial, rank_environment


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def test_a_missing_host_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PreflightError, match=r"no host file .*hostfile \(No such file .*SCALECURVE_HOSTFILE names another"
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
    with pytest.raises(
        PreflightError, match=f"has {slots} slots, and {slots + 1} workers were asked for: slotsPerWorker"
    ):
        check_hostfile(hosts, slots + 1)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=20), st.sampled_from(["{} slots={}", "{}:{}"]))
def test_slots_are_added_up(slots: list[int], form: str) -> None:
    lines = [form.format(f"job-worker-{at}.job.ns.svc", count) for at, count in enumerate(slots)]
    assert sum(map(wrong_start._slots, lines)) == sum(slots)


def test_a_port_that_is_taken_is_named(taken: int) -> None:
    with pytest.raises(PreflightError, match=f"^port {taken}, for sshd, is taken by another process of this pod"):
        check_port(taken, "for sshd")
    check_port(free_port(), "for sshd")


def test_shared_memory_is_missing_or_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_memory(tmp_path / "shm").startswith(f"no {tmp_path}/shm (No such file or directory): NCCL, Open MPI")
    real = os.statvfs(tmp_path)
    for mib, said in ((64, "holds 64 MiB: NCCL and data loaders die"), (65, "")):
        blocks = mib * (1 << 20) // real.f_frsize
        fields = (real.f_bsize, real.f_frsize, blocks, *real[3:])
        monkeypatch.setattr(os, "statvfs", lambda path, fields=fields: os.statvfs_result(fields))
        found = shared_memory(tmp_path)
        assert said in found
        assert bool(said) == bool(found)


def test_a_world_of_another_size_is_explained() -> None:
    assert world_size_mismatch(4, 4, {}) == ""
    assert world_size_mismatch(4, 2, {}) == "world size 2, and 4 workers were asked for"
    assert world_size_mismatch(4, 1, {}).endswith(
        "; no launcher's variable is set: each worker is alone, and believes it is rank 0"
    )
    assert "OMPI_COMM_WORLD_SIZE=1: each worker is alone" in world_size_mismatch(4, 1, {"OMPI_COMM_WORLD_SIZE": "1"})


def test_sshd_says_that_its_port_is_taken(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sshd, "find_sshd", lambda: "/usr/sbin/sshd")
    monkeypatch.setenv(sshd.PORT_ENV, str(taken))
    monkeypatch.setenv("SCALECURVE_TERMINATION_LOG", str(tmp_path / "log"))
    assert sshd.main(str(tmp_path)) == 1
    assert f"scalecurve: port {taken}, for sshd, is taken" in capsys.readouterr().err
    assert (tmp_path / "log").read_text().startswith(f"port {taken}, for sshd")


def test_sshd_says_that_its_user_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.setattr(sshd, "find_sshd", lambda: "/usr/sbin/sshd")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setenv("SCALECURVE_TERMINATION_LOG", str(tmp_path / "log"))
    assert sshd.main(str(tmp_path)) == 1
    assert f"no user of number {os.getuid()}; sshd wants a line for it in /etc/passwd" in capsys.readouterr().err


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
def test_a_launcher_without_host_file_leaves_its_reason(tmp_path: Path) -> None:
    where = {"K_MPI_JOB_ROLE": "launcher", "SCALECURVE_PODS": "2", "SCALECURVE_HOSTFILE": str(tmp_path / "none")}
    line, reason = started(tmp_path, "scalecurve_worker.launch.pod", 2, 2, **where)
    assert line.startswith(f"scalecurve: no host file {tmp_path}/none")
    assert reason.startswith("StartFailed: no host file")


@pytest.mark.processes
def test_a_first_pod_whose_port_is_taken_leaves_its_reason(tmp_path: Path, taken: int) -> None:
    where = {
        "SCALECURVE_PODS": "2",
        "JOB_COMPLETION_INDEX": "0",
        "SCALECURVE_COORDINATOR": f"127.0.0.1:{taken}",
    }
    line, reason = started(tmp_path, "scalecurve_worker.launch.pod", 2, 2, **where)
    assert line.startswith(f"scalecurve: port {taken}, where the workers meet, is taken")
    assert reason.startswith("StartFailed: port")


@pytest.mark.processes
def test_a_rank_whose_metrics_port_is_taken_says_so_in_one_line(tmp_path: Path, taken: int) -> None:
    lines = started(tmp_path, "scalecurve_worker", 1, 1, SCALECURVE_METRICS_PORT=str(taken))
    (line,) = [line for line in lines if line.startswith("scalecurve:")]
    assert f"SCALECURVE_METRICS_PORT: cannot listen on port {taken}" in line


@pytest.mark.processes
def test_a_lonely_worker_says_that_it_is_alone(tmp_path: Path) -> None:
    code = "from scalecurve_worker.record.session import Session; Session()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=rank_environment(tmp_path / "out", make_trial(2)),
        capture_output=True,
        text=True,
    )
    assert "scalecurve: world size 1, and 2 workers were asked for; no launcher's variable is set" in done.stderr
