"""The trial as an engine of another version wrote it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import ENGINE_VERSION_ENV, TRIAL_ENV
from scalecurve_api.release import release
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.trial_spec import read_trial
from tests.worker.worker_ranks import make_trial, rank_environment

TRIAL = make_trial(2)


def refusal(monkeypatch: pytest.MonkeyPatch, engine: str | None, **workload: Any) -> str:
    wire = TRIAL.sent()
    wire["workload"] |= workload
    monkeypatch.setenv(TRIAL_ENV, json.dumps(wire))
    if engine:
        monkeypatch.setenv(ENGINE_VERSION_ENV, engine)
    with pytest.raises(WorkloadError) as refused:
        read_trial()
    return str(refused.value)


def test_what_is_sent_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRIAL_ENV, json.dumps(TRIAL.sent()))
    assert read_trial() == TRIAL


def test_a_field_that_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(monkeypatch, "9.1.0", pipeline={"stages": 4}, sharding="3d")
    assert said == (
        f"SCALECURVE_TRIAL: this image's scalecurve {release()} does not support workload.pipeline, workload.sharding; "
        "use an image of the operator's version, 9.1.0"
    )


def test_a_value_that_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(monkeypatch, "9.1.0", strategy="hybrid")
    assert said == (
        f"SCALECURVE_TRIAL: this image's scalecurve {release()} does not support workload.strategy: hybrid; "
        "use an image of the operator's version, 9.1.0"
    )


def test_an_engine_that_does_not_say_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(monkeypatch, None, sharding="3d").endswith("; use an image of the operator's version")


def test_builds_that_call_themselves_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(monkeypatch, release(), sharding="3d")
    assert said.endswith(f"; use an image built with the operator: both report version {release()}")


@pytest.mark.processes
def test_a_script_in_a_pod_is_handed_the_whole_trial(tmp_path: Path) -> None:
    show = "import os; print('given', os.environ['SCALECURVE_TRIAL'])"
    workload = {"program": "custom", "launcher": "processes", "command": [sys.executable, "-c", show]}
    trial = make_trial(1, workload=workload)
    given = rank_environment(tmp_path, trial, SCALECURVE_PODS="1", SCALECURVE_TERMINATION_LOG=str(tmp_path / "said"))
    done = subprocess.run(
        [sys.executable, "-m", "scalecurve_worker.launch.pod"],
        env={**given, TRIAL_ENV: json.dumps(trial.sent())},
        capture_output=True,
        text=True,
        timeout=300,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("given ")]
    assert json.loads(line.removeprefix("given ")) == trial.wire(), done.stderr


def test_what_no_version_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(monkeypatch, "9.1.0", model="")
    assert said.startswith("SCALECURVE_TRIAL: not a trial: workload.model: ")
    assert said.endswith(f"(this image has scalecurve {release()}, the operator 9.1.0)")
    assert "(" not in refusal(monkeypatch, release(), model="")
