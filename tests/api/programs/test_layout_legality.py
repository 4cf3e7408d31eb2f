"""Sixty layouts, right and wrong: what is legal before a device is taken, and the field that a wrong one names."""

from typing import Any, NamedTuple

import pytest

from scalecurve_api.problem import Problem
from scalecurve_api.validation.rules import check
from tests.api.example_experiments import experiment


class Case(NamedTuple):
    """A layout of a model at a worker count; ``field`` and ``code`` are of the problem, empty where it is legal."""

    model: str
    workers: int
    layout: dict[str, Any]
    field: str = ""
    code: str = ""
    batch: int = 64
    more: dict[str, Any] = {}


def found(case: Case) -> list[Problem]:
    workload = {"program": "torch", "model": case.model, "parallelism": case.layout, **case.more}
    scaling = {"modes": ["strong"], "workers": [case.workers], "batch": {"global": case.batch}}
    spec = {"scaling": scaling, "workload": workload, "matrix": {}, "exclude": []}
    return check(experiment(spec))


def problems(case: Case) -> list[str]:
    return [f"{problem.field}: {problem.code}" for problem in found(case)]


LONG = {"data": {"sequenceLength": 8192}}
CUSTOM = {"program": "custom", "command": ["train", "--tp={tensor}", "--pp={pipeline}", "--mbs={microBatch}"]}

RIGHT = [
    Case("llama_8b", 1, {}),
    Case("llama_8b", 8, {}, more={"options": {"compile": True}}),
    Case("llama_8b", 8, {"replicate": 1, "shard": "auto"}),
    Case("llama_8b", 8, {"tensor": 8}),
    Case("llama_8b", 8, {"replicate": 1, "tensor": "auto"}),
    Case("llama_8b", 8, {"replicate": 2, "shard": 2, "tensor": 2}),
    Case("llama_8b", 16, {"tensor": 4, "pipeline": 4, "schedule": "gpipe"}),
    Case("llama_8b", 16, {"tensor": 2, "pipeline": 2, "context": 2}),
    Case("llama_8b", 64, {"replicate": 2, "shard": 4, "tensor": 2, "pipeline": 2, "context": 2}),
    Case("llama_8b", 32, {"pipeline": 32}),
    Case("llama_8b", 16, {"pipeline": 16, "schedule": "interleaved", "microBatches": 32}),
    Case("llama_8b", 4, {"pipeline": 4, "microBatches": 1}),
    Case("llama_8b", 4, {"replicate": 1, "pipeline": "auto"}),
    Case("llama_8b", 8, {"context": 8}, more=LONG),
    Case("llama_8b", 8, {"context": 4, "tensor": 2}, more=LONG),
    Case("llama_8b", 8, {"tensor": 2, "innermost": "shard", "replicate": 1, "shard": "auto"}),
    Case("llama_8b", 2, {"tensor": 2}, more={"precision": "bf16"}),
    Case("llama_8b", 2, {"tensor": 2}, more={"options": {"gradientAccumulation": 4}}),
    Case("llama_8b", 2, {"tensor": 2}, more={"options": {"activationCheckpointing": "full"}}),
    Case("llama_1b", 16, {"pipeline": 16}),
    Case("llama_1b", 8, {"pipeline": 8, "schedule": "interleaved"}),
    Case("llama_3b", 6, {"tensor": 2, "pipeline": 3, "microBatches": 8}),
    Case("gpt2_small", 12, {"tensor": 4, "pipeline": 3, "microBatches": 8}),
    Case("gpt2_small", 3, {"tensor": 3}, more={"data": {"sequenceLength": 768}}),
    Case("gpt2_large", 4, {"tensor": 4}),
    Case("llama_tiny", 2, {"pipeline": 2}),
    Case("resnet50", 4, {"pipeline": 4}),
    Case("resnet50", 4, {"replicate": 1, "shard": 4}),
    Case("any", 8, {"tensor": 2, "pipeline": 2}, more=CUSTOM),
    Case("any", 8, {"expert": 4}, more=CUSTOM),
]
WRONG = [
    Case("llama_8b", 8, {"tensor": 3}, "parallelism.tensor", "Invalid"),
    Case("llama_8b", 8, {"tensor": 16}, "parallelism.tensor", "Invalid"),
    Case("llama_8b", 8, {"tensor": 4, "pipeline": 4}, "parallelism.", "Invalid"),
    Case("llama_8b", 8, {"replicate": 4}, "parallelism.replicate", "Invalid"),
    Case("llama_8b", 8, {"replicate": 2, "shard": 2, "tensor": 4}, "parallelism.", "Invalid"),
    Case("llama_8b", 8, {"shard": "auto"}, "parallelism.shard", "Invalid"),
    Case("llama_8b", 8, {"tensor": "auto", "replicate": "auto"}, "parallelism.tensor", "Invalid"),
    Case("llama_8b", 16, {"tensor": 16}, "parallelism.tensor", "Invalid"),
    Case("llama_8b", 6, {"tensor": 3}, "parallelism.tensor", "Invalid"),
    Case("llama_tiny", 4, {"tensor": 4}, "parallelism.tensor", "Invalid"),
    Case("gpt2_small", 8, {"tensor": 8}, "parallelism.tensor", "Invalid"),
    Case("gpt2_large", 8, {"tensor": 8}, "parallelism.tensor", "Invalid"),
    Case("resnet50", 2, {"tensor": 2}, "parallelism.tensor", "NotSupported"),
    Case("resnet50", 2, {"context": 2}, "parallelism.context", "NotSupported"),
    Case("resnet50", 2, {"expert": 2}, "parallelism.expert", "NotSupported"),
    Case("llama_8b", 4, {"context": 4}, "parallelism.context", "Invalid", more={"data": {"sequenceLength": 510}}),
    Case("llama_8b", 4, {"tensor": 4}, "parallelism.tensor", "Invalid", more={"data": {"sequenceLength": 1022}}),
    Case(
        "llama_8b", 8, {"tensor": 4, "context": 2}, "parallelism.context", "Invalid",
        more={"data": {"sequenceLength": 2052}},
    ),
    Case("llama_8b", 64, {"pipeline": 64}, "parallelism.pipeline", "Invalid"),
    Case("llama_8b", 32, {"pipeline": 32, "schedule": "interleaved"}, "parallelism.pipeline", "Invalid"),
    Case("gpt2_tiny", 4, {"pipeline": 4}, "parallelism.pipeline", "Invalid"),
    Case("llama_8b", 4, {"pipeline": 4, "microBatches": 6, "schedule": "interleaved"}, "microBatches", "Invalid", 12),
    Case("llama_8b", 2, {"pipeline": 2, "microBatches": 3}, "scaling.batch.global", "Invalid"),
    Case("llama_8b", 4, {"microBatches": 2}, "parallelism.microBatches", "Forbidden"),
    Case("llama_8b", 4, {"expert": 4}, "parallelism.expert", "NotSupported"),
    Case("llama_8b", 16, {"tensor": 1}, "scaling.batch.global", "Invalid", 24),
    Case("llama_8b", 2, {"tensor": 2}, "precision", "NotSupported", more={"precision": "fp16"}),
    Case("resnet50", 2, {"pipeline": 2}, "options.channelsLast", "NotSupported",
         more={"options": {"channelsLast": True}}),
    Case(
        "llama_8b", 2, {"pipeline": 2}, "options.gradientAccumulation", "NotSupported",
        more={"options": {"gradientAccumulation": 2}},
    ),
    Case("any", 8, {"tensor": 3}, "parallelism.tensor", "Invalid", more=CUSTOM),
]  # fmt: skip


MIXTURES = [
    Case("mixtral_8x7b", 16, {"expert": 8, "shard": 2}),
    Case("mixtral_8x7b", 16, {"expert": 2, "pipeline": 8}),
    Case("olmoe_1b_7b", 64, {"expert": 64}),
    Case("mixtral_8x7b", 2, {"context": 2}),
    Case("mixtral_8x7b", 16, {"expert": 16}, "parallelism.expert", "Invalid"),
    Case("mixtral_8x7b", 2, {"tensor": 2}, "parallelism.tensor", "NotSupported"),
    Case("mixtral_8x7b", 4, {"expert": 2, "context": 2}, "parallelism.expert", "NotSupported"),
    Case(
        "mixtral_8x7b", 2, {"expert": 2}, "data.sequenceLength", "Invalid",
        more={"data": {"sequenceLength": 2046}},
    ),
]  # fmt: skip


def named(case: Case) -> str:
    return f"{case.model}-{case.workers}-" + "-".join(f"{name}={value}" for name, value in case.layout.items())


def test_there_are_sixty_different_cases() -> None:
    assert len(RIGHT) == len(WRONG) == 30
    assert len({str(case) for case in (*RIGHT, *WRONG)}) == 60


@pytest.mark.parametrize("case", RIGHT, ids=named)
def test_legal_layouts_are_accepted(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.parametrize("case", WRONG, ids=named)
def test_illegal_layouts_are_refused_with_the_field_and_a_code(case: Case) -> None:
    broken = problems(case)
    assert any(case.field in problem and problem.endswith(case.code) for problem in broken), broken


@pytest.mark.parametrize("case", MIXTURES, ids=named)
def test_layouts_of_mixtures_of_experts(case: Case) -> None:
    found = problems(case)
    if not case.field:
        assert found == []
        return
    assert any(case.field in problem and problem.endswith(case.code) for problem in found), found
