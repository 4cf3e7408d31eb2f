"""What the golden manifests are made of: requests, each for one runner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scalecurve_api.planning.plan import expand_points
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_operator.runners import RUNNERS, JobRequest

IMAGES = {name: f"ghcr.io/scalecurve/worker-{name}:0.1.0" for name in ("torch", "tensorflow", "horovod", "allreduce")}
GPU = {"limits": {"nvidia.com/gpu": 1, "cpu": "3500m", "memory": "16Gi"}}
EVERYTHING: dict[str, Any] = {
    "queue": "team-a",
    "placement": {"workersPerNode": 4, "nesting": "require"},
    "results": {"claim": "records"},
    "pod": {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "labels": {"team": "a", "scalecurve.dev/attempt": "7"},
        "annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"},
        "serviceAccountName": "trainer",
        "priorityClassName": "high",
        "schedulerName": "default-scheduler",
        "runtimeClassName": "nvidia",
        "imagePullSecrets": ["registry"],
        "imagePullPolicy": "IfNotPresent",
        "hostNetwork": True,
        "lockMemory": True,
        "sharedMemory": "32Gi",
        "claims": [{"claim": "imagenet", "path": "/data"}, {"claim": "scratch", "path": "/scratch", "readOnly": False}],
    },
}
PARAMETER_SERVER = {"workload": {"program": "tensorflow", "strategy": "parameter-server"}}

PLATFORMS = Path(__file__).parents[3] / "manifests/platforms"
"""Overlays of an experiment for platforms that many have."""


def platform(name: str, **options: Any) -> dict[str, Any]:
    """Options of a case: the experiment with a platform's overlay."""
    return {**options, **yaml.safe_load((PLATFORMS / f"{name}.yaml").read_text())["spec"]}


CASES: dict[str, tuple[Runner, dict[str, Any]]] = {
    "job-1x1": (Runner.job, {"workers": 1}),
    "job-2x8": (Runner.job, {"workers": 16}),
    "job-2x8-in-4-pods": (Runner.job, {"workers": 16, "placement": {"workersPerNode": 8, "podsPerNode": 2}}),
    "job-1x8-in-2-pods": (Runner.job, {"workers": 8, "placement": {"workersPerNode": 8, "podsPerNode": 2}}),
    "job-everything": (Runner.job, {"workers": 8, "nodes": ("gpu-7", "gpu-3", "gpu-9"), **EVERYTHING}),
    "job-own-program": (
        Runner.job,
        {
            "workers": 2,
            "resources": {"limits": {"cpu": 0.5, "memory": 1500000000, "example.com/fpga": "2"}},
            "workload": {
                "program": "custom",
                "image": "registry.example/train@sha256:" + "0" * 64,
                "command": ["python", "train.py", "--note", "$(HOSTNAME) costs 5$"],
                "env": {
                    "NOTE": "$(POD_NAME) costs 5$",
                    "SCALECURVE_PODS": "9",
                    "POD_NAME": "mine",
                    "NCCL_DEBUG": "INFO",
                },
            },
        },
    ),
    "pytorchjob-1x8": (Runner.pytorch_job, {"workers": 8}),
    "pytorchjob-2x8": (Runner.pytorch_job, {"workers": 16, "nodes": ("gpu-0",)}),
    "pytorchjob-everything": (Runner.pytorch_job, {"workers": 8, "nodes": ("gpu-7", "gpu-3"), **EVERYTHING}),
    "mpijob-1x1": (Runner.mpi_job, {"workers": 1, "workload": {"program": "horovod"}}),
    "mpijob-2x8": (Runner.mpi_job, {"workers": 16, "workload": {"program": "horovod"}}),
    "mpijob-everything": (Runner.mpi_job, {"workers": 8, "nodes": ("gpu-7",), **EVERYTHING}),
    "tfjob-1x1": (Runner.tf_job, {"workers": 1, "workload": {"program": "tensorflow"}}),
    "tfjob-2x8": (
        Runner.tf_job,
        {"workers": 16, "workload": {"program": "tensorflow", "strategy": "multi-worker-mirrored"}},
    ),
    "tfjob-parameter-server": (Runner.tf_job, {"workers": 4, "placement": {"workersPerNode": 2}, **PARAMETER_SERVER}),
    "tfjob-everything": (Runner.tf_job, {"workers": 8, "nodes": ("gpu-7",), **PARAMETER_SERVER, **EVERYTHING}),
    "jobset-1x1": (Runner.job_set, {"workers": 1}),
    "jobset-2x8": (Runner.job_set, {"workers": 16}),
    "jobset-mpi": (Runner.job_set, {"workers": 16, "workload": {"program": "horovod"}}),
    "jobset-parameter-server": (Runner.job_set, {"workers": 4, "placement": {"workersPerNode": 2}, **PARAMETER_SERVER}),
    "jobset-everything": (Runner.job_set, {"workers": 8, "nodes": ("gpu-7", "gpu-3"), **EVERYTHING}),
}

CASES |= {
    f"platform-{file.stem}": (Runner.job, platform(file.stem, workers=16)) for file in sorted(PLATFORMS.glob("*.yaml"))
}
PATCHES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("platform_patches.yaml").read_text())
"""What further platform teams set on training pods."""
CASES |= {f"patch-{name}": (Runner.job_set, {"workers": 16, **options}) for name, options in PATCHES.items()}
CASES["platform-jobset-sidecar"] = (Runner.job_set, platform("sidecar", workers=16))

RENDERED_WHOLE = [runner for runner in Runner if runner is not Runner.train_job]
"""The kinds whose pods are ours alone; a TrainJob's are its runtime's, with what is patched in."""


def request(
    workers: int = 1,
    nodes: tuple[str, ...] = (),
    attempt: int = 1,
    runner: Runner | None = None,
    repetition: int = 0,
    earlier_nodes: tuple[str, ...] = (),
    **spec: Any,
) -> JobRequest:
    """The request for the first trial with so many workers; ``spec`` replaces fields of the experiment."""
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "resnet"},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [workers], "batch": {"perWorker": 64}},
            "placement": {"workersPerNode": 8},
            "resources": GPU,
            "deadlineSeconds": 1800,
            **({"runner": runner.value} if runner else {}),
            **spec,
        },
    }
    experiment = ScalingExperiment.model_validate(tree)
    point = next(expand_points(experiment.spec))
    trial = TrialSpec(
        experiment="resnet",
        name=f"{point.name}-r1",
        point=point,
        repetition=repetition,
        seed=0,
        workload=experiment.spec.workload,
        measure=experiment.spec.measure.timing(),
        runner=experiment.spec.runner,
        resources=experiment.spec.resources,
        deadline_seconds=experiment.spec.deadline_seconds,
    )
    return JobRequest(
        experiment="resnet",
        namespace="team-a",
        spec=experiment.spec,
        trial=trial,
        trial_object=f"resnet-{trial.name}",
        attempt=attempt,
        images=IMAGES,
        record_bytes=8_388_608,
        nodes=nodes,
        earlier_nodes=earlier_nodes,
        engine_version="1.2.3",
    )


def case(name: str) -> JobRequest:
    """The request of a golden case."""
    runner, options = CASES[name]
    return request(runner=runner, **options)


def manifests(name: str) -> list[dict[str, Any]]:
    """The job of a golden case, and what stands beside it."""
    asked = case(name)
    kind = RUNNERS[CASES[name][0]]
    job = kind.render(asked)
    return [job, *kind.companions(asked, job)]


class Written(yaml.SafeDumper):
    """Everything in full, for people to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def spelled(name: str) -> str:
    """A golden file's text."""
    return yaml.dump_all(manifests(name), Dumper=Written, sort_keys=False, width=120)


def job(runner: Runner, **options: Any) -> dict[str, Any]:
    return RUNNERS[runner].render(request(runner=runner, **options))


def templates(tree: Any) -> Iterator[dict[str, Any]]:
    """Every pod template in a manifest."""
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for child in children:
        if isinstance(child, dict) and "containers" in (child.get("spec") or {}):
            yield child
        else:
            yield from templates(child)


def env(template: dict[str, Any]) -> dict[str, str]:
    """Variables as the kubelet would give them."""
    given = template["spec"]["containers"][0]["env"]
    assert len({each["name"] for each in given}) == len(given), "a variable twice"
    return {each["name"]: each["value"].replace("$$", "$") for each in given if "value" in each}
