"""Scripts that know nothing of ScaleCurve, under the real engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalecurve_api.record.trial_record import TrialRecord
from tests.proofs import unproved_at_any_load

from .conftest import Lab

pytestmark = pytest.mark.processes
SHAPES = Path(__file__).parents[1] / "worker" / "integrations" / "instrument" / "scripts" / "shapes.py"
MEASURE = {"warmupSteps": 2, "maxWarmupSteps": 2, "windows": 2, "stepsPerWindow": 3, "maxForeignLoad": 1.0}


def judged(lab: Lab, *command: str, workers: int, launcher: str) -> TrialRecord:
    scaling = {"modes": ["weak"], "workers": [workers], "batch": {"perWorker": 4}}
    workload = {"instrument": "auto", "command": [sys.executable, *command], "launcher": launcher}
    lab.write(scaling=scaling, measure={**MEASURE, "repetitions": 1}, workload=workload)
    lab.run()
    (name,) = lab.published()
    return TrialRecord.model_validate(lab.record(name))


@pytest.mark.parametrize("launcher", ["processes", "torchrun", "mpirun"])
def test_a_distributed_script(lab: Lab, launcher: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    if launcher == "mpirun":
        pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    record = judged(lab, str(SHAPES), "images", workers=2, launcher=launcher)
    assert (record.phase, record.message) == ("Succeeded", "")
    assert unproved_at_any_load(record) == ()
    assert [(window.steps, window.samples) for window in record.windows if window.kind.value == "train"] == [
        (3, 24)
    ] * 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('epoch 1')", "rank 0: the command ended without importing torch, so there was nothing to time: "),
        ("import sys; sys.exit(2)", "exited with code 2"),
    ],
)
def test_a_script_without_torch(lab: Lab, script: str, message: str) -> None:
    record = judged(lab, "-c", script, workers=1, launcher="processes")
    assert record.phase == "Failed"
    assert message in record.message


def test_a_command_that_is_no_python(lab: Lab) -> None:
    scaling = {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}
    lab.write(
        scaling=scaling, measure={**MEASURE, "repetitions": 1}, workload={"instrument": "auto", "command": ["true"]}
    )
    lab.run()
    record = lab.record(*lab.published())
    assert record["message"] == (
        "no record from rank 0 of 1: no optimizer step of torch was seen in true on any rank: call attach() in it, or "
        "set workload.instrument: log to read the program's own numbers"
    )
