"""Which function runs a workload's program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scalecurve_api.contract import TRIAL_ENV, failure_file
from scalecurve_api.record.rank import RankFailure
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.programs import measurements, program
from tests.worker.worker_ranks import launch, make_trial, records

EXTENSION = Path(__file__).parent / "extension"
RANK = [sys.executable, "-m", "scalecurve_worker"]


def run_extension(out: Path, workload: dict[str, object], path: str, *, fails: bool = False) -> str:
    trial = {**make_trial().wire(), "workload": workload}
    environment = {TRIAL_ENV: json.dumps(trial), "PYTHONPATH": ":".join([path, *sys.path])}
    return launch(out, RANK, fails=fails, **environment).stderr


def test_a_command_is_no_function() -> None:
    with pytest.raises(WorkloadError, match=r"workload\.program: custom runs a command, not a function"):
        program(make_trial(workload={"program": "custom", "command": ["true"]}).workload)


def test_a_measurement_that_a_framework_does_not_do_is_named() -> None:
    trial = make_trial(measure={"accuracy": {"epochs": 1}})
    with pytest.raises(WorkloadError, match="measure: the training to accuracy is not done by jax"):
        list(measurements(trial, "jax"))


@pytest.mark.processes
def test_a_program_of_another_package_runs(tmp_path: Path) -> None:
    run_extension(tmp_path, {"program": "fixed-work", "additions": 1000}, str(EXTENSION))
    (record,) = records(tmp_path, 1)
    assert [window.steps for window in record.windows] == [3, 3]


@pytest.mark.processes
def test_a_program_that_is_not_installed_here_is_named(tmp_path: Path) -> None:
    said = run_extension(tmp_path, {"program": "fixed-work", "additions": 1}, "", fails=True)
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    assert failure.reason == "BadWorkload"
    assert "fixed-work" in failure.message
    assert failure.message in said
