"""Memory of the points of a plan against a device, by the commands that show and judge it."""

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from scalecurve.cli.plan import command as plan
from scalecurve.cli.validate import command as validate

EXPERIMENT = {
    "apiVersion": "scalecurve.dev/v1alpha1",
    "kind": "ScalingExperiment",
    "metadata": {"name": "big"},
    "spec": {
        "scaling": {"modes": ["weak"], "workers": [1, 8], "batch": {"perWorker": 2}},
        "workload": {
            "model": "llama_8b",
            "optimizer": {"name": "adamw"},
            "parallelism": {"replicate": 1, "shard": "auto"},
        },
    },
}


def file_in(folder: Path) -> str:
    path = folder / "big.yaml"
    path.write_text(yaml.safe_dump(EXPERIMENT))
    return str(path)


def test_validate_refuses_what_a_device_cannot_hold(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    assert CliRunner().invoke(validate, [file]).exit_code == 0
    refused = CliRunner().invoke(validate, [file, "--device", "H200"])
    assert refused.exit_code == 2
    (line,) = refused.output.splitlines()
    assert "weak at 1 worker needs 32.1 parameters + 64.2 optimizer" in line
    assert CliRunner().invoke(validate, [file, "--device", "B200"]).exit_code == 0
    unknown = CliRunner().invoke(validate, [file, "--device", "H2000"])
    assert unknown.exit_code == 2
    assert "device 'H2000' is unknown" in unknown.output


def test_plan_shows_the_memory_of_each_point(tmp_path: Path) -> None:
    shown = CliRunner().invoke(plan, [file_in(tmp_path), "--device", "H200", "-o", "json"])
    assert shown.exit_code == 0
    rows = json.loads(shown.output)["memory"]["rows"]
    assert [(row["parallelism"], row["fits"]) for row in rows] == [("one worker", "no: 141 GB"), ("shard=8", "yes")]
