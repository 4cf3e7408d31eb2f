"""A user's package adds a program, a model and a plot by its entry points alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "plugin_package"
EXPERIMENT = """
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: example}
spec:
  scaling: {modes: [weak], workers: [1, 2], batch: {perWorker: 4}}
  workload: {program: sleep, device: cpu, options: {stepMs: 2}}
  measure: {warmupSteps: 3, maxWarmupSteps: 5, windows: 2, stepsPerWindow: 10, repetitions: 1, maxForeignLoad: 1}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as ``pip install --target`` leaves it."""
    target = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    shutil.copytree(PACKAGE / "scalecurve_example", target / "scalecurve_example")
    metadata = target / f"scalecurve_example-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


def python(site: Path, *arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)


def test_an_experiment_of_the_program_runs_and_is_reported_with_the_plot(site: Path, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    ran = python(site, "-m", "scalecurve", "run", "e.yaml", "--bundle", "bundle", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    written = python(site, "-m", "scalecurve", "report", "bundle", "--out", "report", folder=tmp_path)
    assert written.returncode == 0, written.stderr
    assert "![Example](plots/example.png)" in (tmp_path / "report" / "report.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("stepMs", "stepms", "spec.workload.options.stepms: unknown field 'stepms'; did you mean 'stepMs'?"),
        ("stepMs: 2", "stepMs: 0", "spec.workload.options.stepMs: got 0; expected more than 0"),
        ("device: cpu", "device: gpu", 'spec.workload.device: got "gpu"; not supported with program sleep'),
        ("program: sleep", "program: slep", "spec.workload.program: got \"slep\"; expected 'torch',"),
    ],
)
def test_its_own_rules_are_checked(site: Path, tmp_path: Path, old: str, new: str, problem: str) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace(old, new))
    checked = python(site, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path)
    assert checked.returncode == 2
    assert problem in checked.stdout + checked.stderr


def test_the_crds_take_the_program(site: Path, tmp_path: Path) -> None:
    generated = python(site, "-m", "scalecurve_api.crds.generate", tmp_path)
    assert generated.returncode == 0, generated.stderr
    text = (tmp_path / "scalecurve.dev_scalingexperiments.yaml").read_text()
    assert "stepMs:" in text
    assert "- sleep" in text


def test_the_model_is_built_by_the_torch_program(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    workload = "workload: {model: perceptron, device: cpu}"
    text = EXPERIMENT.replace("workload: {program: sleep, device: cpu, options: {stepMs: 2}}", workload)
    (tmp_path / "e.yaml").write_text(text)
    assert python(site, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path).returncode == 0
    count = "print(sum(parameter.numel() for parameter in build('perceptron').parameters()))"
    code = f"from scalecurve_worker.torch.models import build; {count}"
    assert python(site, "-c", code).stdout == "7850\n"


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    checked = python(tmp_path, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path)
    assert checked.returncode == 2
    assert 'got "sleep"' in checked.stdout + checked.stderr


def test_a_package_that_cannot_be_imported_is_named(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    (broken / "scalecurve_example" / "program.py").write_text("import no_such_module\n")
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    checked = python(broken, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path)
    assert checked.returncode == 2
    message = (
        "entry point scalecurve.programs:sleep = scalecurve_example.program:SleepWorkload (scalecurve-example 1.0)"
    )
    assert message in checked.stdout + checked.stderr
    assert "no_such_module" in checked.stdout + checked.stderr
