"""The built-in torch program with two real DDP processes: killed and resumed, and a rank lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, eventually

from .conftest import Lab, none_left

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes
T2 = "weak-2-1x2-r1"


def write(lab: Lab, steps: int, workers: Sequence[int] = (2,), **workload: Any) -> None:
    """A small network, trained for so many timed steps a window."""
    lab.write(
        scaling={"modes": ["weak"], "workers": list(workers), "batch": {"perWorker": 8}},
        workload={
            "program": "torch",
            "command": None,
            "model": "mlp",
            "data": {"source": "synthetic", "shape": [1, 8, 8], "classes": 10},
            **workload,
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
    begun = [path for path in lab.bundle.glob(".work/*/attempt-*/rank-*.steps") if path.stat().st_size > 1000]
    ready: list[dict[str, Any]] = [json.loads(path.read_text()) for path in files]
    return [entry["pid"] for entry in ready] if len(begun) == len(ready) == 2 else []


def killed_while_training(lab: Lab, steps: int) -> bool:
    """Kill the engine once both ranks train; whether they still did."""
    lab.bundle = lab.folder / f"bundle-{steps}"
    write(lab, steps)
    engine = lab.begin()
    eventually(lambda: rank_pids(lab) or engine.poll() is not None, "steps of both ranks, or the end of the run")
    engine.kill()
    engine.communicate()
    none_left(lab.bundle)
    return not lab.published() and not list(lab.bundle.glob(".work/*/attempt-1/rank-0.json"))


def test_killed_while_training_and_resumed(lab: Lab) -> None:
    # Where it was through before this process had a turn: once more, and longer.
    assert any(killed_while_training(lab, steps) for steps in (150, 1_000, 4_000, 16_000))
    result = lab.run(resume=True)
    assert result.exit_code == 0
    assert list(result.records) == [T2]
    record = lab.record(T2)
    assert (record["phase"], record.get("reason"), record["attempt"]) == ("Succeeded", None, 2)
    assert len(set(record["parameterChecksums"])) == 1
    assert record["backend"] == "gloo"
    assert record["summary"]["throughput"] > 0
    assert [place["device"] for place in record["topology"]] == [
        "cpu:" + ",".join(map(str, place["cores"])) for place in record["topology"]
    ]
    none_left(lab.folder)


def test_a_rank_killed_while_training_is_the_reason(lab: Lab) -> None:
    write(lab, 1_000_000)
    engine = lab.begin()
    os.kill(eventually(lambda: rank_pids(lab), "steps of both ranks")[1], signal.SIGKILL)
    assert engine.wait(PATIENCE_S) == 1
    engine.communicate()
    record = lab.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")
    assert record["message"] == "rank 1 was ended by SIGKILL"
    assert record["exitCodes"]["1"] == -9
    assert (lab.bundle / "trials" / T2 / "steps.parquet").stat().st_size > 0
