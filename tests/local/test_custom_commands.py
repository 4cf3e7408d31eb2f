"""Commands of anyone's under the real engine: what they forget to call, and where they start."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from scalecurve_api.record.checks.proof import PROOF
from scalecurve_api.record.trial_record import TrialRecord
from tests.proofs import unproved_at_any_load

from .conftest import PROGRAMS, Lab

pytestmark = pytest.mark.processes
SINGLE = {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}
ATTACH = "import scalecurve_worker as scalecurve\nbench = scalecurve.attach()\n"
MEASURE = {"warmupSteps": 2, "maxWarmupSteps": 2, "windows": 3, "stepsPerWindow": 4, "repetitions": 1}


def ended(lab: Lab, script: str, workers: int = 1, **workload: Any) -> tuple[str, str, str]:
    (lab.folder / "code").mkdir()
    (lab.folder / "code" / "train.py").write_text(script)
    command = [sys.executable, str(lab.folder / "code" / "train.py")]
    scaling = {**SINGLE, "workers": [workers]}
    measure = {**MEASURE, "maxForeignLoad": 1.0}
    lab.write(scaling=scaling, measure=measure, workload={"command": command, **workload})
    lab.run()
    (name,) = lab.published()
    record = lab.record(name)
    return record["phase"], record.get("reason", ""), record["message"]


def test_a_script_that_never_attaches(lab: Lab) -> None:
    assert ended(lab, "print('epoch 1, loss 0.3')", instrument="sdk") == (
        "Invalid",
        "RecordsMissing",
        "no record from rank 0 of 1: train.py never called attach() on any rank",
    )


def test_a_script_that_attaches_on_rank_0_alone(lab: Lab) -> None:
    script = (
        "import os, sys\nif os.environ['RANK'] == '1': sys.exit()\n"
        "os.environ.update(WORLD_SIZE='1')\n" + ATTACH + "while bench.step(): pass\nbench.finish()"
    )
    phase, reason, message = ended(lab, script, workers=2, instrument="sdk")
    assert (phase, reason) == ("Invalid", "RecordsMissing")
    assert message.startswith("no record from rank 1 of 2: train.py never called attach() on rank 1")


@pytest.mark.parametrize(
    ("leave", "measured"),
    [("number == 12", "2 windows were"), ("number == 7", "1 window was"), ("False", "3 windows were")],
)
def test_a_script_that_never_finishes(lab: Lab, leave: str, measured: str) -> None:
    script = f"{ATTACH}for number, _ in enumerate(bench.steps([[0] * 4])):\n    if {leave}: break"
    phase, reason, message = ended(lab, script)
    assert (phase, reason) == ("Invalid", "RecordsMissing")
    assert message == f"no record from rank 0 of 1: {measured} measured, but train.py never called finish() on any rank"


def test_a_command_starts_in_its_working_folder(lab: Lab) -> None:
    script = f"{ATTACH}import os\nassert os.path.exists('train.py')\nwhile bench.step(): pass\nbench.finish()"
    code = str(lab.folder / "code")
    assert ended(lab, script, workingDir=code, command=[sys.executable, "train.py"])[:2] == ("Succeeded", "")


def test_a_working_folder_that_does_not_exist(lab: Lab) -> None:
    phase, reason, message = ended(lab, "", workingDir="no/such")
    assert (phase, reason) == ("Failed", "BadWorkload")
    assert "workload.workingDir: cannot enter 'no/such': No such file or directory" in message


def test_a_command_gets_the_values_of_its_point(lab: Lab) -> None:
    """By placeholders and by variables, before it attaches to anything."""
    script = f"""
import json, os, sys
assert sys.argv[1:] == ["--batch=4", "8", "512", '{{"a": {{}}}}'], sys.argv
assert os.environ["OUT"] == "out/" + os.environ["SCALECURVE_TRIAL_NAME"]
mine = {{name: os.environ["SCALECURVE_" + name] for name in ("BATCH_PER_WORKER", "GLOBAL_BATCH", "WORKERS", "NODES")}}
assert mine == dict(BATCH_PER_WORKER="4", GLOBAL_BATCH="8", WORKERS="2", NODES="1"), mine
assert os.environ["SCALECURVE_PARAMETER_SEQ_LEN"] == "512"
{ATTACH}
while bench.step(): pass
bench.finish()"""
    train = str(lab.folder / "code" / "train.py")
    words = [sys.executable, train, "--batch={batchPerWorker}", "{globalBatch}", "{seqLen}", '{"a": {}}']
    more = {"parameters": {"seqLen": 512}, "env": {"OUT": "out/{trialName}"}, "command": words}
    assert ended(lab, script, workers=2, **more)[:2] == ("Succeeded", "")


# Public scripts, written anew


def judged(lab: Lab, *command: str) -> TrialRecord:
    """Two ranks of a command with two windows, by the real engine."""
    measure = {**MEASURE, "windows": 2, "stepsPerWindow": 3, "maxForeignLoad": 1.0}
    workload = {"command": [sys.executable, *command], "env": {"CUDA_VISIBLE_DEVICES": ""}}
    lab.write(scaling={**SINGLE, "workers": [2]}, measure=measure, workload=workload)
    lab.run()
    (name,) = lab.published()
    return TrialRecord.model_validate(lab.record(name))


@pytest.mark.parametrize("script", ["mnist", "imagenet"])
def test_a_public_script_that_is_not_distributed(lab: Lab, script: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    record = judged(lab, str(PROGRAMS / f"{script}.py"))
    assert (record.phase, record.reason) == ("Invalid", "NoCommunication")
    assert record.message.startswith("rank 0, 1 took part in no collective or message in 28 observed steps")


@pytest.mark.parametrize("script", ["mnist", "imagenet"])
def test_a_public_script_with_ddp_is_proved(lab: Lab, script: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    record = judged(lab, str(PROGRAMS / f"{script}.py"), "--ddp")
    assert (record.phase, record.reason, record.message) == ("Succeeded", None, "")
    assert unproved_at_any_load(record) == ()


def test_a_loop_that_sleeps_is_unproved(lab: Lab) -> None:
    sleeping = f"import time\n{ATTACH}while bench.step(samples=4): time.sleep(0.02)\nbench.finish()"
    record = judged(lab, "-c", sleeping)
    assert record.phase == "Succeeded"
    assert unproved_at_any_load(record) == PROOF
