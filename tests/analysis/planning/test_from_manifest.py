"""Public shapes of manifests, in words of our own: each becomes an experiment that validates and plans."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scalecurve.cli import cli
from scalecurve.planning.from_manifest import Converted, experiment_from
from scalecurve.planning.manifest_jobs import ManifestError
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.validation.validate import validate_text

SHAPES = Path(__file__).parents[2] / "fixtures/manifests"
PLAIN = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: plain}}
spec:
  parallelism: {nodes}
  template:
    spec:
      containers:
        - name: main
          image: registry.example/mine:1
          command: {command}
          resources: {{limits: {{nvidia.com/gpu: 4}}}}
"""


def made(name: str) -> tuple[dict[str, Any], Converted]:
    converted = experiment_from((SHAPES / f"{name}.yaml").read_text(), f"{name}.yaml")
    assert validate_text(converted.text, "made.yaml").problems == ()
    return yaml.safe_load(converted.text)["spec"], converted


def of_command(command: list[str], nodes: int = 2) -> dict[str, Any]:
    converted = experiment_from(PLAIN.format(nodes=nodes, command=json.dumps(command)), "job.yaml")
    assert validate_text(converted.text, "made.yaml").problems == ()
    spec = yaml.safe_load(converted.text)["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.mark.parametrize("shape", sorted(path.stem for path in SHAPES.glob("*.yaml")))
def test_from_a_public_shape_to_a_plan(tmp_path: Path, shape: str) -> None:
    target = tmp_path / "experiment.yaml"
    ran = CliRunner().invoke(cli, ["experiment", "from", str(SHAPES / f"{shape}.yaml"), "--write", str(target)])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert f"next: scalecurve plan {target}" in ran.stdout
    assert CliRunner().invoke(cli, ["validate", str(target)]).exit_code == 0
    assert CliRunner().invoke(cli, ["plan", str(target)]).exit_code == 0
    (experiment,) = validate_text(target.read_text(), "made.yaml").experiments
    assert make_plan(experiment).trials
    again = CliRunner().invoke(cli, ["experiment", "from", str(SHAPES / f"{shape}.yaml"), "--write", str(target)])
    assert (again.exit_code, again.stderr) == (2, f"scalecurve: --write {target}: exists; expected a new file\n")


def test_an_mpijob_of_nccl_tests_over_virtual_functions() -> None:
    spec, converted = made("sriov-mpijob")
    assert spec["workload"]["program"] == "allreduce"
    assert spec["workload"]["sizes"] == {"minBytes": 1 << 20, "maxBytes": 1 << 32, "factor": 2, "iterations": 30}
    assert spec["workload"]["env"] == {"NCCL_IB_SL": "0", "NCCL_DEBUG": "WARN"}
    assert (spec["scaling"]["workers"], spec["placement"]) == ([2, 4, 8, 16], {"workersPerNode": 8})
    assert spec["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "64Gi"}
    assert (spec["queue"], spec["pod"]["jobLabels"], spec["pod"]["lockMemory"]) == (
        "gpu-queue",
        {"team": "infra"},
        True,
    )
    (worker,) = spec["pod"]["template"]["spec"]["containers"]
    assert worker["resources"] == {"limits": {"fabric.example/vf": 4}, "requests": {"fabric.example/vf": 4, "cpu": 32}}
    assert "not carried over: spec.runPolicy, the pod's restartPolicy" in converted.notes


def test_a_jobset_with_topology() -> None:
    spec, converted = made("topology-jobset")
    assert spec["scaling"] == {"modes": ["strong"], "workers": [1, 2, 4, 8, 16, 32], "batch": {"global": 512}}
    assert spec["workload"]["command"] == [
        "python",
        "pretrain.py",
        "--global_batch_size={globalBatch}",
        "--seq-len=4096",
    ]
    annotations = spec["pod"]["template"]["metadata"]["annotations"]
    assert annotations == {"kueue.x-k8s.io/podset-required-topology": "cloud.example/block"}
    assert spec["pod"]["jobLabels"] == {"kueue.x-k8s.io/priority-class": "research"}
    left = " ".join(converted.notes)
    for named in ("spec.network", "spec.replicatedJobs[0]", "backoffLimit", "MASTER_ADDR", "Service of the file"):
        assert named in left


def test_a_pytorchjob_with_init_containers() -> None:
    spec, _ = made("init-pytorchjob")
    pod = spec["pod"]["template"]["spec"]
    assert (pod["initContainers"][0]["name"], [each["name"] for each in pod["containers"]]) == (
        "fetch",
        ["worker", "logs"],
    )
    assert spec["pod"]["sharedMemory"] == "64Gi"
    assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is True
    assert spec["workload"]["workingDir"] == "/workspace"
    shell, option, script = spec["workload"]["command"]
    assert (shell, option) == ("/bin/bash", "-lc")
    assert "exec python finetune.py --per_device_train_batch_size {batchPerWorker} --gpus {workersPerNode}" in script
    assert "torchrun" not in script


def test_an_mpijob_with_efa() -> None:
    spec, converted = made("efa-mpijob")
    assert spec["workload"]["collectives"] == ["all-gather"]
    assert spec["workload"]["sizes"]["dtype"] == "float16"
    assert spec["workload"]["env"]["FI_PROVIDER"] == "efa"
    pod = spec["pod"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi"}
    assert pod["volumes"] == [{"name": "shm-of-the-job", "hostPath": {"path": "/dev/shm"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "shm-of-the-job", "mountPath": "/dev/shm"}]
    assert "dropped from the benchmark's options: -c 1" in converted.notes


def test_a_trainjob_keeps_its_runtime() -> None:
    text = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 2
    image: registry.example/t:1
    command: [torchrun, train.py]
    args: [--batch-size=8]
    resourcesPerNode: {limits: {nvidia.com/gpu: 2}}
"""
    spec = yaml.safe_load(experiment_from(text, "t.yaml").text)["spec"]
    assert spec["trainingRuntime"] == {"name": "torch-distributed"}
    assert spec["workload"]["command"] == ["python", "train.py", "--batch-size={batchPerWorker}"]
    assert spec["scaling"] == {"modes": ["weak"], "workers": [1, 2, 4], "batch": {"perWorker": 8}}


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        (["python3", "t.py", "{x}"], ["python3", "t.py", "{{x}}"]),
        (["sh", "-c", "exec torchrun --nproc_per_node=$GPUS t.py"], ["sh", "-c", "exec python t.py"]),
        (
            ["sh", "-c", "set -x\ntorchrun --nproc_per_node 4 t.py --devices 4"],
            "python t.py --devices {workersPerNode}",
        ),
        (["sh", "-c", "A=$(date -u); torchrun -m m.t $A"], ["sh", "-c", "A=$(date -u); exec python -m m.t $A"]),
        (["sh", "-c", "mpirun -x A=$(id -u) -x B='c d' t $B"], ["sh", "-c", "exec t $B"]),
        (["deepspeed", "--num_nodes", "2", "t.py", "--num_nodes=2"], "python t.py --num_nodes={nodes}"),
        (["python", "t.py", "--eval-batch-size", "4"], "python t.py --eval-batch-size 4"),
    ],
)
def test_commands(command: list[str], becomes: list[str] | str) -> None:
    words = becomes.split() if isinstance(becomes, str) else becomes
    assert of_command(command)["workload"]["command"] == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: ConfigMap\n", "expected a job (MPIJob, PyTorchJob, JobSet, TrainJob, Job), got ConfigMap"),
        ("kind: JobSet\n", "spec.replicatedJobs: expected at least one job"),
        ("kind: MPIJob\nspec: {slotsPerWorker: many}\n", "Worker: expected a pod template with a container"),
        (PLAIN.format(nodes="[1]", command=["x"]), "spec.parallelism: expected a whole number from 1 to 65536"),
        (PLAIN.format(nodes=1, command=[]), "the container states no command"),
        ("kind: [", "malformed YAML"),
    ],
)
def test_what_no_experiment_can_be_made_of(text: str, said: str) -> None:
    with pytest.raises(ManifestError) as refused:
        experiment_from(text, "job.yaml")
    assert said in str(refused.value)


@pytest.mark.parametrize("kind", ["MPIJob", "PyTorchJob", "JobSet", "TrainJob", "Job"])
def test_validate_says_what_a_manifest_is_and_what_to_do(kind: str) -> None:
    (problem,) = validate_text(f"apiVersion: v1\nkind: {kind}\nspec: {{a: 1}}\n", "mine.yaml").problems
    assert str(problem) == (
        f'mine.yaml:2: kind: got "{kind}"; expected a ScalingExperiment; '
        "`scalecurve experiment from mine.yaml` makes one of this job"
    )
