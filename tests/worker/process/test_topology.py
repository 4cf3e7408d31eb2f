from __future__ import annotations

import os

import pytest

from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.topology import environment, topology


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
    for name in ("num_procs", "initial_wdir", "cpu_type", "PREFIXES", "opal_abort_delay", "coll"):
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
