"""Real images, built with buildah: who they run as, what they can, and what they say when something is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.images.container import Container
from tools.images import build

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1800)]
NAMES = ["operator", "worker-mpi"]


@pytest.fixture(scope="module")
def containers() -> Iterator[dict[str, Container]]:
    if why := build.lacking():
        pytest.skip(why)
    archives = build.build(NAMES)
    with Container(archives["operator"]) as operator, Container(archives["worker-mpi"]) as worker:
        yield {"operator": operator, "worker-mpi": worker}


@pytest.fixture(scope="module")
def worker(containers: dict[str, Container]) -> Container:
    return containers["worker-mpi"]


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_as_an_ordinary_user_and_holds_no_way_to_become_root(
    containers: dict[str, Container], name: str
) -> None:
    container = containers[name]
    user = {"operator": "65532", "worker-mpi": "1000"}[name]
    assert container.says("id -u; id -g").split() == [user, user]
    assert container.says("find / -xdev -type f -perm /6000 2>/dev/null || true") == ""
    assert container.says("grep CapEff /proc/self/status").split()[1] == "0" * 16
    assert container.configuration["config"]["User"] == f"{user}:{user}"


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_no_trace_of_how_packages_came(containers: dict[str, Container], name: str) -> None:
    container = containers[name]
    assert container.run("ls /etc/pip.conf").returncode != 0
    assert container.says("find /run/secrets /tmp -type f") == ""
    assert "http" not in json.dumps(container.configuration["history"])
    mirrors = container.says("cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true")
    assert all("//deb.debian.org/" in line for line in mirrors.splitlines() if line.startswith("deb"))


def test_the_operator_says_what_it_lacks(containers: dict[str, Container]) -> None:
    operator = containers["operator"]
    assert operator.configuration["config"]["Entrypoint"] == ["python", "-m", "scalecurve_operator"]
    done = operator.run("python -m scalecurve_operator", SCALECURVE_POOLS="what")
    assert done.returncode == 2
    assert done.stderr.startswith("scalecurve operator: ")
    operator.says(
        "python -c 'import scalecurve_operator.main, scalecurve_operator.reconcile.collect, "
        "scalecurve_api.crds.generate'"
    )
    assert operator.run("python -c 'import pandas'").returncode != 0


def test_the_worker_has_mpi_and_the_program_that_needs_no_framework(worker: Container) -> None:
    worker.says(
        "python -c 'import scalecurve_worker.launch.pod, scalecurve_worker.launch.sshd, "
        "scalecurve_worker.rendezvous.communicator, numpy'"
    )
    assert worker.says("mpirun --version").startswith("mpirun (Open MPI)")
    two = "python -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1))'"
    assert worker.says(f"mpirun --oversubscribe -n 2 {two}").split() == ["2", "2"]
    assert worker.run("python -c 'import torch'").returncode != 0


def test_the_worker_says_in_one_line_that_it_has_no_trial(worker: Container) -> None:
    done = worker.run("python -m scalecurve_worker.launch.pod", SCALECURVE_TERMINATION_LOG="/tmp/said")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "scalecurve: SCALECURVE_TRIAL is not set: it holds the trial's JSON"
    assert "SCALECURVE_TRIAL is not set" in worker.says("cat /tmp/said")


def test_nslookup_ends_as_a_loop_wants_it(worker: Container) -> None:
    assert worker.run("nslookup localhost").returncode == 0
    assert worker.run("nslookup no.such.name.invalid").returncode != 0


def test_an_ordinary_users_sshd_lets_mpirun_in(worker: Container) -> None:
    """Keys as mpi-operator makes them; the session has the pod's own environment and finds Open MPI's daemon."""
    start = (
        "import socket; from scalecurve_worker.launch import sshd; "
        "probe = socket.socket(); probe.bind(('', 0)); port = probe.getsockname()[1]; probe.close(); "
        "open('/tmp/port', 'w').write(str(port)); "
        "import os; os.environ['SCALECURVE_SSH_PORT'] = str(port); raise SystemExit(sshd.main())"
    )
    said = worker.says(
        "cd ~/.ssh && ssh-keygen -q -t ecdsa -N '' -f id_rsa && cp id_rsa.pub authorized_keys\n"
        f'python -c "{start}" & sshd=$!\n'
        "for i in $(seq 600); do\n"
        '  ssh -p "$(cat /tmp/port)" -i id_rsa -o BatchMode=yes -o StrictHostKeyChecking=no '
        "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR mpiuser@127.0.0.1 "
        "'id -un; command -v prted; command -v python; echo $SCALECURVE_POD_INDEX $NCCL_DEBUG' 2>/tmp/said && break\n"
        "  kill -0 $sshd || break\n"
        "  sleep 0.1\n"
        "done\n"
        "kill $sshd; cat /tmp/said",
        POD_NAME="trial-a1-worker-3",
        NCCL_DEBUG="WARN",
    )
    assert said.split() == ["mpiuser", "/opt/scalecurve/bin/prted", "/opt/scalecurve/bin/python", "3", "WARN"]
