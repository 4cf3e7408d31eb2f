"""What a template of pods may not change."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.validation.pod_template import template_problems


def problems(template: dict[str, Any]) -> list[str]:
    spec = ExperimentSpec.model_validate(
        {"scaling": {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 1}}, "pod": {"template": template}}
    )
    return [f"{'.'.join(map(str, problem.path[3:]))}: {problem.code}" for problem in template_problems(spec)]


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "worker", **fields}]}}


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ({"kind": "Pod"}, "kind: Unknown"),
        ({"spec": []}, "spec: Invalid"),
        ({"metadata": {"name": "x"}}, "metadata.name: Unknown"),
        (
            {"metadata": {"labels": {"scalecurve.dev/trial": "x"}}},
            "metadata.labels.scalecurve.dev/trial: Forbidden",
        ),
        ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy: Forbidden"),
        ({"spec": {"containers": {}}}, "spec.containers: Invalid"),
        ({"spec": {"initContainers": [{"image": "x"}]}}, "spec.initContainers.0.name: Required"),
        (container(command=["sh"]), "spec.containers.0.command: Forbidden"),
        (container(env=[{"name": "RANK", "value": "0"}]), "spec.containers.0.env.0.name: Forbidden"),
        ({"metadata": {"annotations": {"a": "x" * 40_000}}}, ": Invalid"),
    ],
)
def test_what_an_attempt_needs_is_not_to_be_changed(template: dict[str, Any], problem: str) -> None:
    assert problems(template) == [problem]


def test_everything_else_may() -> None:
    side = {"name": "side", "command": ["sh"], "env": [{"name": "RANK", "value": "of its own"}]}
    assert problems({"spec": {"containers": [side], "initContainers": [{**side, "name": "worker"}]}}) == []
    assert problems({}) == []
