"""A user's package adds what ScaleCurve finds by name, by its entry points alone."""

from __future__ import annotations

import json
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
    assert {len(measured(path)) for path in tmp_path.glob("bundle/**/trial.json")} == {1, 2}, "a fact of each rank"
    written = python(site, "-m", "scalecurve", "report", "bundle", "--out", "report", folder=tmp_path)
    assert written.returncode == 0, written.stderr
    assert "![Example](plots/example.png)" in (tmp_path / "report" / "report.md").read_text()


def measured(path: Path) -> list[int]:
    """Return the steps in which each rank noted its fact of the package, which take time."""
    facts = json.loads(path.read_text())["facts"]["oversleep"]
    assert all(fact["seconds"] > 0 for fact in facts)
    return [fact["steps"] for fact in facts]


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
    assert "- JAXJob" in text


def test_the_model_is_built_by_the_torch_program(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    workload = "workload: {model: perceptron, device: cpu}"
    text = EXPERIMENT.replace("workload: {program: sleep, device: cpu, options: {stepMs: 2}}", workload)
    (tmp_path / "e.yaml").write_text(text)
    assert python(site, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path).returncode == 0
    count = "print(sum(parameter.numel() for parameter in build('perceptron').parameters()))"
    code = f"from scalecurve_worker.torch.models import build; {count}"
    assert python(site, "-c", code).stdout == "7850\n"


def test_a_file_of_its_format_becomes_a_bundle(site: Path, tmp_path: Path) -> None:
    (tmp_path / "runs.txt").write_text("# stopwatch\n1 10 1000\n2 10 1900\n")
    command = ("-m", "scalecurve", "import", "runs.txt", "--set", "mode=weak", "--into")
    done = python(site, *command, "bundle", "-o", "json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["formats"] == {"runs.txt": "stopwatch"}
    (tmp_path / "runs.txt").write_text("# stopwatch\n1 10\n")
    refused = python(site, *command, "other", folder=tmp_path)
    assert refused.returncode == 2
    assert "runs.txt:2: got '1 10', expected WORKERS SECONDS SAMPLES" in refused.stderr


def test_a_trial_that_its_check_refuses_is_invalid(site: Path, tmp_path: Path) -> None:
    """Also where the record is read without the check."""
    text = EXPERIMENT.replace("stepsPerWindow: 10", "stepsPerWindow: 2").replace("workers: [1, 2]", "workers: [1]")
    (tmp_path / "e.yaml").write_text(text)
    ran = python(site, "-m", "scalecurve", "run", "e.yaml", "--bundle", "bundle", folder=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    for reader in (site, without(site, tmp_path / "without", "checks")):
        written = python(reader, "-m", "scalecurve", "report", "bundle", "--format", "md", folder=tmp_path)
        assert written.returncode == 0, written.stderr
        page = (tmp_path / "bundle" / "report" / "report.md").read_text()
        assert "LongEnough" in page
        assert "ms, expected 20 ms at least" in page


JAX_JOB = """
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.runner_cases import request
from scalecurve_api.spec.job_kinds import Runner

job = RUNNERS["JAXJob"].render(request(workers=16, runner=Runner("JAXJob")))
print(job["apiVersion"], job["kind"], job["spec"]["jaxReplicaSpecs"]["Worker"]["replicas"])
created = {"type": "Created", "status": "True"}
failed = {"type": "Failed", "status": "True", "reason": "JobFailed", "message": "it failed"}
for conditions in ([created], [created, failed]):
    print(RUNNERS["JAXJob"].read({**job, "status": {"conditions": conditions}}).state.value)
"""


def test_its_job_kind_carries_trials(site: Path, tmp_path: Path) -> None:
    done = python(site, "-c", JAX_JOB, folder=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["kubeflow.org/v1 JAXJob 2", "starting", "ended"]
    text = EXPERIMENT.replace("spec:\n", "spec:\n  runner: JAXJob\n").replace("device: cpu, ", "")
    (tmp_path / "e.yaml").write_text(text)
    assert python(site, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path).returncode == 0
    refused = python(tmp_path, "-m", "scalecurve", "validate", "e.yaml", folder=tmp_path)
    assert 'spec.runner: got "JAXJob"; expected' in refused.stdout + refused.stderr


AUTO = """
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.planning.runner_choice import choices
from tests.api.example_experiments import experiment

for queue in ({}, {"queue": "team"}):
    plan = make_plan(experiment({"placement/workersPerNode": 1, **queue}))
    print(*(choice.runner.value for choice in choices(plan)))
"""


def test_auto_takes_its_job_kind_where_the_facts_say_so(site: Path) -> None:
    done = python(site, "-c", AUTO, folder=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["JobSet TrainJob PyTorchJob JAXJob Job", "JobSet Job"]


def test_its_predictor_is_one_of_the_models(site: Path) -> None:
    command = ("-m", "scalecurve", "predict")
    assert python(site, *command, "amdahl", "--serial", "0.5", "--workers", "4").stdout == "1.6\n"
    assert "(Amdahl, 1967)" in python(site, *command, "--help").stdout


DOCTOR = """
from scalecurve.cluster import doctor
from scalecurve_api.spec.experiment import Metadata
from tests.api.example_experiments import experiment

doctor._server = lambda context: ()
own = [name for name in doctor.CHECKS.names() if name != "names"]
doctor.CHECKS._loaded.update(dict.fromkeys(own, lambda context: ()))
named = experiment({"runner": "Job"}).model_copy(update={"metadata": Metadata(name="n" * 21)})
print(doctor.doctor(None, named))
"""


def test_its_check_of_a_cluster_is_one_of_the_doctors(site: Path) -> None:
    done = python(site, "-c", DOCTOR, folder=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert "good=False, do='shorten it to 20 letters'" in done.stdout


def without(site: Path, copy: Path, group: str) -> Path:
    """A copy of the package that registers nothing in this group."""
    shutil.copytree(site, copy)
    (points,) = copy.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace(f"[scalecurve.{group}]", f"[other.{group}]"))
    return copy


UNRENDERED = """
from scalecurve_operator.runners import JobRequestError, runner_for
from scalecurve_api.spec.job_kinds import Runner
from tests.operator.runners.runner_cases import request

made = request(workers=16, runner=Runner("JAXJob"))
try:
    runner_for(made.spec, made.trial)
except JobRequestError as error:
    print(error)
"""


def test_a_job_kind_without_a_runner_fails_to_start(site: Path, tmp_path: Path) -> None:
    kinds_only = without(site, tmp_path / "kinds", "runners")
    done = python(kinds_only, "-c", UNRENDERED, folder=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("spec.runner: got JAXJob; no package renders it")


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


def test_a_plot_that_cannot_be_imported_is_missing_and_named(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    (broken / "scalecurve_example" / "plot.py").write_text("import no_such_module\n")
    code = "from scalecurve.reporting.compose import all_plots; print(len(all_plots()) > 5)"
    done = python(broken, "-c", code)
    assert done.stdout == "True\n", done.stderr
    assert "scalecurve.plots:example = scalecurve_example.plot" in done.stderr
    assert "no_such_module" in done.stderr
