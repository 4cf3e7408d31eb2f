"""A small right experiment, and the same with fields changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from scalecurve_api.problem import Problem
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.validation.validate import validate_text

BASE: dict[str, Any] = {
    "apiVersion": "scalecurve.dev/v1alpha1",
    "kind": "ScalingExperiment",
    "metadata": {"name": "example"},
    "spec": {
        "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"global": 16, "perWorker": 8}},
        "workload": {"model": "resnet18"},
    },
}
REMOVED = object()


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """``BASE`` with values at slash-separated paths under ``spec`` put in or removed."""
    document = copy.deepcopy(BASE)
    for path, value in changes.items():
        *outer, last = path.split("/")
        inside = document["spec"]
        for name in outer:
            inside = inside.setdefault(name, {})
        if value is REMOVED:
            del inside[last]
        else:
            inside[last] = value
    return document


def problems(changes: Mapping[str, Any]) -> tuple[Problem, ...]:
    """What is wrong with ``BASE`` after the changes."""
    return validate_text(yaml.safe_dump(changed(changes), sort_keys=False), "file.yaml").problems


def experiment(changes: Mapping[str, Any] | None = None) -> ScalingExperiment:
    """``BASE`` after the changes, checked for its shape only."""
    return ScalingExperiment.model_validate(changed(changes or {}))


def spec(changes: Mapping[str, Any] | None = None) -> ExperimentSpec:
    """Its spec."""
    return experiment(changes).spec
