"""Which programs and sources take changed labels, and their fields as axes of an experiment."""

from typing import Any

import pytest

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import ScalingExperiment

PSEUDO = {"labeled": 0.1, "pseudoLabels": {"teacher": "t.pt"}}


def problems(**spec: Any) -> list[str]:
    workload = Workload.model_validate({"program": "torch", "model": "resnet20", **spec})
    return [f"{'.'.join(map(str, problem.path))}: {problem.code}" for problem in workload.problems(1, 1)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"data": {"source": "digits", "labels": PSEUDO}}, []),
        (
            {"data": {"source": "synthetic", "labels": {"noise": 0.1}}},
            ["spec.workload.data.labels: Forbidden"],
        ),
        (
            {"data": {"source": "digits", "labels": {"pseudoLabels": {"teacher": "t.pt"}}}},
            ["spec.workload.data.labels.pseudoLabels: Forbidden"],
        ),
        (
            {"program": "horovod", "data": {"source": "digits", "labels": PSEUDO}},
            ["spec.workload.data.labels.pseudoLabels: Forbidden"],
        ),
        (
            {"program": "tensorflow", "data": {"source": "digits", "labels": {"noise": 0.1}}},
            ["spec.workload.data.labels: Forbidden"],
        ),
    ],
)
def test_where_labels_can_be_changed(spec: dict[str, Any], expected: list[str]):
    assert problems(**spec) == expected


def test_fields_of_labels_are_axes_and_keep_what_stands_beside_them():
    experiment = ScalingExperiment.model_validate(
        {
            "apiVersion": "scalecurve.dev/v1alpha1",
            "kind": "ScalingExperiment",
            "metadata": {"name": "students"},
            "spec": {
                "scaling": {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 8}},
                "workload": {"program": "torch", "model": "mlp", "data": {"source": "digits", "labels": PSEUDO}},
                "matrix": {
                    "data.labels.pseudoLabels.perClass": [5, 10],
                    "data.labels.resampling": ["natural", "uniform"],
                },
                "measure": {"repetitions": 1},
            },
        }
    )
    labels = [trial.workload_as(TorchWorkload).data.labels for trial in make_plan(experiment).trials]
    made = {(one.pseudo_labels.per_class, one.resampling.value) for one in labels if one.pseudo_labels is not None}
    assert made == {(5, "natural"), (5, "uniform"), (10, "natural"), (10, "uniform")}
    assert {one.labeled for one in labels} == {0.1}
