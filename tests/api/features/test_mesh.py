"""Rules of strategy mesh, beside those of layouts."""

from collections.abc import Iterator
from typing import Any

import pytest

from scalecurve_api.problem import Problem
from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.programs.torch import TORCH_STRATEGIES
from scalecurve_api.validation.rules import check
from tests.api.example_experiments import problems
from tests.api.programs import test_layout_legality, test_parallelism
from tests.api.programs.test_memory import BY_HAND, LLAMA, memory

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


def test_state_is_divided_as_the_layout_divides_it() -> None:
    mesh = memory(Degrees(tensor=2, pipeline=2, shard=2), 8, parallelism={})
    assert (mesh.parameters, mesh.optimizer) == (LLAMA / 2, LLAMA)
    assert memory(Degrees(replicate=8), 8, parallelism={}).optimizer == 8 * LLAMA
    halved = memory(Degrees(tensor=2), 2, parallelism={"replicate": 1, "tensor": 2})
    assert halved.activations == BY_HAND / 2


def test_experts_are_divided_over_their_workers_and_the_rest_is_not() -> None:
    experts, dense = 32 * 8 * 3 * 4096 * 14_336, 46_702_792_704 - 32 * 8 * 3 * 4096 * 14_336
    mixture = memory(Degrees(expert=8, shard=2), 16, model="mixtral_8x7b", parallelism={})
    assert mixture.parameters == 4 * (dense + experts / 8) / 2
    assert mixture.optimizer == 2 * mixture.parameters


def test_without_it_parallelism_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {name: entry for name, entry in TORCH_STRATEGIES.built_in.items() if name != "mesh"}
    monkeypatch.setattr(TORCH_STRATEGIES, "built_in", others)
    (problem,) = problems({**COUNTS, "workload": TWO})
    assert (problem.field, problem.code) == ("spec.workload.strategy", "NotSupported")
    assert problem.message.endswith("not supported beside parallelism")


def further_problems() -> Iterator[Problem]:
    """What is wrong with layouts, for the list of messages."""
    for case in (*test_layout_legality.WRONG, *test_layout_legality.MIXTURES):
        yield from test_layout_legality.found(case)
    for layout, _ in test_parallelism.LAYOUTS:
        yield from check(test_parallelism.layouts({"parallelism": layout}))
