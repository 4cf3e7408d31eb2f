"""The experiments of a probe, and what it writes."""

from __future__ import annotations

from typing import Any

from scalecurve.cluster.probe import ALL_REDUCE, experiment_on, leave_out
from scalecurve_api.planning.plan import expand_points
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.validation.rules import check


def made(spec: dict[str, Any], *nodes: str, workers: int = 8) -> ScalingExperiment:
    tree = experiment_on(spec, "probe-1", "team", nodes, workers, repetitions=3, gpus=True)
    experiment = ScalingExperiment.model_validate(tree)
    assert check(experiment) == []
    return experiment


def terms(experiment: ScalingExperiment) -> list[Any]:
    affinity = experiment.spec.pod.template["spec"]["affinity"]["nodeAffinity"]
    return list(affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"])


def test_a_group_runs_on_its_nodes_and_on_no_others() -> None:
    experiment = made(ALL_REDUCE, "a", "b", "c")
    (point,) = expand_points(experiment.spec)
    assert (point.nodes, point.workers_per_node) == (3, 8)
    assert [term["matchFields"][0]["values"] for term in terms(experiment)] == [["a"], ["b"], ["c"]]
    assert experiment.spec.resources.limits == {"nvidia.com/gpu": 1}


def test_a_workload_of_the_users_own() -> None:
    own = {
        "scaling": {"modes": ["strong", "weak"], "workers": [1, 2], "batch": {"global": 240, "perWorker": 8}},
        "workload": {"model": "resnet18"},
        "matrix": {"precision": ["fp32", "bf16"]},
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 2}},
        "pod": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}},
    }
    experiment = made(ExperimentSpec.model_validate(own).wire(), "a", "b")
    (point,) = expand_points(experiment.spec)
    assert (point.workers, point.mode.value) == (16, "weak")
    assert experiment.spec.pod.template["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert experiment.spec.resources.limits["cpu"] == 2


def test_an_overlay_leaves_nodes_out() -> None:
    (term,) = leave_out(["a", "b"])["spec"]["pod"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert [field["values"] for field in term["matchFields"]] == [["a"], ["b"]]
    assert leave_out([]) == {"spec": {}}
