"""Rules of strategies deepspeed-zero1, 2 and 3."""

from typing import Any

import pytest

from tests.api.example_experiments import problems


@pytest.mark.parametrize(
    ("changes", "field", "got", "code"),
    [
        ({"workload": {"strategy": "deepspeed-zero2", "optimizer": {"name": "lars"}}},
         "spec.workload.optimizer.name", "lars", "NotSupported"),
        ({"workload": {"strategy": "deepspeed-zero1", "precision": "fp16"}},
         "spec.workload.precision", "fp16", "NotSupported"),
        ({"workload": {"strategy": "deepspeed-zero3", "options": {"compile": True}}},
         "spec.workload.options.compile", True, "NotSupported"),
        ({"workload": {"strategy": "deepspeed-zero3", "model": "mlp", "data": {"source": "digits"}},
          "measure": {"accuracy": {"epochs": 1}}},
         "spec.measure.accuracy", {"epochs": 1, "stopAtTarget": False, "noiseScale": False}, "Forbidden"),
    ],
)  # fmt: skip
def test_a_broken_rule(changes: dict[str, Any], field: str, got: object, code: str) -> None:
    (problem,) = problems(changes)
    assert (problem.field, problem.got, problem.code) == (field, got, code)


@pytest.mark.parametrize(
    "changes",
    [
        {"matrix": {"strategy": ["zero1", "deepspeed-zero1", "deepspeed-zero2", "deepspeed-zero3"]}},
    ],
)  # fmt: skip
def test_what_is_allowed(changes: dict[str, Any]) -> None:
    assert not problems(changes)
