"""Rules of strategy mesh, beside those of layouts."""

from collections.abc import Iterator
from typing import Any

import pytest

from scalecurve_api.problem import Problem
from scalecurve_api.validation.rules import check
from tests.api.example_experiments import problems
from tests.api.programs import test_layout_legality, test_parallelism

COUNTS = {"scaling/workers": [2, 4]}
TWO = {"program": "torch", "model": "llama_8b", "parallelism": {"tensor": 2}}


@pytest.mark.parametrize(
    ("changes", "field", "got", "code"),
    [
        ({**COUNTS, "workload": {**TWO, "precision": "fp16"}}, "spec.workload.precision", "fp16", "NotSupported"),
        ({**COUNTS, "workload": {**TWO, "options": {"channelsLast": True}}},
         "spec.workload.options.channelsLast", True, "NotSupported"),
    ],
)  # fmt: skip
def test_a_broken_rule(changes: dict[str, Any], field: str, got: object, code: str) -> None:
    (problem,) = problems(changes)
    assert (problem.field, problem.got, problem.code) == (field, got, code)


def further_problems() -> Iterator[Problem]:
    """What is wrong with layouts, for the list of messages."""
    for case in (*test_layout_legality.WRONG, *test_layout_legality.MIXTURES):
        yield from test_layout_legality.found(case)
    for layout, _ in test_parallelism.LAYOUTS:
        yield from check(test_parallelism.layouts({"parallelism": layout}))
