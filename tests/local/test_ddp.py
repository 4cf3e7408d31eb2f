"""The built-in torch program with two real DDP processes: killed and resumed, and a rank lost."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from .conftest import Lab, processes_of, until

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes
T2 = "weak-2-1x2-r1"


def write(lab: Lab, steps: int, launcher: str = "torchrun") -> None:
    lab.write(
        scaling={"modes": ["weak"], "workers": [2], "batch": {"perWorker": 8}},
        workload={
            "program": "torch",
            "launcher": launcher,
            "command": None,
            "model": "mlp",
            "data": {"source": "synthetic", "shape": [1, 8, 8], "classes": 10},
        },
        measure={
            "warmupSteps": 3,
            "maxWarmupSteps": 20,
            "windows": 2,
            "stepsPerWindow": steps,
            "repetitions": 1,
            "exposedCommunication": False,
            "maxForeignLoad": 1.0,
        },
    )


def rank_pids(lab: Lab) -> list[int]:
    """Process numbers of ranks that are past their first window's beginning."""
    files = sorted(lab.bundle.glob(".work/*/attempt-*/rank-*.ready.json"))
    begun = [path for path in lab.bundle.glob(".work/*/attempt-*/rank-*.steps") if path.stat().st_size > 3200]
    ready: list[dict[str, Any]] = [json.loads(path.read_text()) for path in files]
    return [entry["pid"] for entry in ready] if len(begun) == len(ready) == 2 else []


def test_killed_while_training_and_resumed(lab: Lab) -> None:
    write(lab, 1_000)
    engine = lab.begin()
    until(lambda: rank_pids(lab))
    engine.kill()
    engine.communicate()
    code, records, said = lab.drive("resume")
    assert (code, records) == (0, {T2: ["Succeeded", None, 2]}), said
    record = lab.record(T2)
    assert len(set(record["parameterChecksums"])) == 1
    assert record["backend"] == "gloo"
    assert record["summary"]["throughput"] > 0
    assert [place["device"] for place in record["topology"]] == [
        "cpu:" + ",".join(map(str, place["cores"])) for place in record["topology"]
    ]
    assert not processes_of(lab.folder)


def test_a_rank_killed_while_training_is_the_reason(lab: Lab) -> None:
    write(lab, 1_000_000, "processes")
    engine = lab.begin()
    os.kill(until(lambda: rank_pids(lab))[1], signal.SIGKILL)
    assert engine.wait(60) == 1
    engine.communicate()
    record = lab.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")
    assert record["message"] == "rank 1 was ended by SIGKILL"
    assert record["exitCodes"]["1"] == -9
    assert (lab.bundle / "trials" / T2 / "steps.parquet").stat().st_size > 0
