"""Degrees of parallelism: their product, their legality, the batch of a group, and the catalog's sizes behind them."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from scalecurve_api.planning.plan import expand_points
from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.model_catalog import MODELS
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.transformer_shapes import SHAPES
from scalecurve_api.validation.rules import check
from scalecurve_api.validation.validate import validate_text
from tests.api.example_experiments import experiment

RECIPES = sorted((Path(__file__).parents[3] / "manifests" / "layouts").glob("*.yaml"))
CUSTOM = {"program": "custom", "command": ["train", "--tp={tensor}", "--mbs={microBatch}"]}


def layouts(workload: dict[str, Any], **spec: Any) -> Any:
    workload = {"program": "torch", "model": "llama_8b", **workload}
    scaling = {"modes": ["strong"], "workers": [4], "batch": {"global": 16, "perWorker": 4}}
    return experiment({"scaling": scaling, "workload": workload, "matrix": {}, "exclude": [], **spec})


def problems(workload: dict[str, Any], **spec: Any) -> list[str]:
    return [f"{problem.field}: {problem.message}" for problem in check(layouts(workload, **spec))]


LAYOUTS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"tensor": 2}, None),
    ({"tensor": 4}, None),
    ({"replicate": 1, "shard": "auto", "tensor": 2}, None),
    ({"pipeline": 2, "schedule": "gpipe"}, None),
    ({"pipeline": 4, "microBatches": 8}, None),
    ({"pipeline": 2, "schedule": "interleaved"}, None),
    ({"context": 4}, None),
    ({"replicate": 2, "tensor": 2}, None),
    ({"tensor": 3}, "parallelism.tensor: got 3; expected degrees whose product divides 4"),
    ({"tensor": 2, "pipeline": 4}, "parallelism.pipeline: got 4; expected degrees whose product divides 4"),
    ({"replicate": 2}, "parallelism.replicate: got 2; expected degrees whose product is 4"),
    ({"shard": "auto"}, "only one dimension may be auto, not replicate and shard"),
    ({"expert": 2}, "parallelism.expert: got 2; not supported with model llama_8b, which has no experts"),
    ({"pipeline": 2, "microBatches": 3}, "a global batch that is a multiple of 6, not 16"),
    (
        {"pipeline": 4, "microBatches": 6, "schedule": "interleaved"},
        "microBatches: got 6; expected a multiple of 4, the stages",
    ),
    ({"microBatches": 2}, "microBatches: without a pipeline"),
]
"""Of four workers, and what is wrong with each."""


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_give_the_parameters_of_the_catalog(name: str) -> None:
    entry = MODELS.get(name)
    assert SHAPES[name].parameters(entry.classes) == entry.parameters


def test_one_degree_follows_from_the_others() -> None:
    degrees = Parallelism(tensor=2, pipeline=2).degrees(16, 8, 32)
    assert degrees is not None
    assert (degrees.replicate, degrees.data, degrees.group, degrees.workers) == (4, 4, 4, 16)
    assert (degrees.group_batch, degrees.micro_batches) == (8, 4)
    # Ranks 0-7 are on one node, and the two stages of a pipeline are 8 ranks apart.
    assert degrees.inside_node == [Dimension.replicate, Dimension.tensor]
    sharded = Parallelism(replicate=1, shard="auto", tensor=2).degrees(8)
    assert sharded is not None
    assert (sharded.shard, sharded.tensor, sharded.data) == (4, 2, 4)
    assert Parallelism(replicate=2, tensor=2).degrees(4) is not None
    for layout in (Parallelism(tensor=3), Parallelism(replicate=3), Parallelism(shard="auto")):
        assert layout.degrees(4) is None


def test_the_innermost_dimension_has_neighboring_ranks() -> None:
    degrees = Parallelism(replicate="auto", pipeline=2, innermost=Dimension.pipeline).degrees(4)
    assert degrees is not None
    assert [degrees.coordinates(rank)[Dimension.pipeline] for rank in range(4)] == [0, 1, 0, 1]
    assert [degrees.data_rank(rank) for rank in range(4)] == [0, 0, 1, 1]


@pytest.mark.parametrize(("layout", "expected"), LAYOUTS)
def test_layouts_are_judged_before_a_process_starts(layout: dict[str, Any], expected: str | None) -> None:
    broken = problems({"parallelism": layout})
    assert bool(broken) == (expected is not None), broken
    assert expected is None or any(expected in problem for problem in broken), broken


@pytest.mark.parametrize(
    ("workload", "workers", "expected"),
    [
        (
            {"model": "gpt2_small", "parallelism": {"tensor": 8}},
            8,
            "tensor: got 8; expected a divisor of 12, the heads of gpt2_small",
        ),
        (
            {"parallelism": {"tensor": 16}},
            16,
            "tensor: got 16; expected a divisor of 8, the key and value heads of llama_8b",
        ),
        ({"parallelism": {"context": 4}, "data": {"sequenceLength": 510}}, 4, "the sequence of 510 tokens"),
        (
            {"model": "gpt2_tiny", "parallelism": {"pipeline": 4}},
            4,
            "pipeline: got 4; expected at most 2, since gpt2_tiny has 2 layers",
        ),
        (
            {"model": "resnet50", "parallelism": {"tensor": 2}},
            4,
            "tensor: got 2; not supported with model resnet50, which is no transformer",
        ),
        ({"strategy": "ddp", "parallelism": {"tensor": 2}}, 4, "not supported beside parallelism; use mesh"),
        (
            {"parallelism": {"tensor": 2}, "precision": "fp16"},
            4,
            "not supported with strategy mesh; use fp32, tf32 or bf16",
        ),
        ({"parallelism": {"replicate": "auto", "tensor": 1}}, 32, "a global batch that is a multiple of 32, not 16"),
    ],
)
def test_degrees_must_divide_the_model_and_the_batch(workload: dict[str, Any], workers: int, expected: str) -> None:
    scaling = {"modes": ["strong"], "workers": [workers], "batch": {"global": 16}}
    broken = problems(workload, scaling=scaling)
    assert any(expected in problem for problem in broken), broken


def test_degrees_are_numbers_or_auto() -> None:
    for wrong in (0, -1, "all", 1.5, True):
        with pytest.raises(ValidationError):
            Parallelism.model_validate({"tensor": wrong})


def test_layouts_of_one_count_train_on_one_batch_in_both_modes() -> None:
    scaling = {"modes": ["strong", "weak"], "workers": [4, 8], "batch": {"global": 16, "perWorker": 4}}
    made = layouts({"parallelism": {}}, scaling=scaling, matrix={"parallelism.tensor": [1, 2, 4]})
    assert not check(made)
    points = list(expand_points(made.spec))
    assert {(p.mode.value, p.workers, p.global_batch) for p in points} == {
        ("strong", 4, 16),
        ("strong", 8, 16),
        ("weak", 4, 16),
        ("weak", 8, 32),
    }
    groups = {(p.workers, p.axes["parallelism.tensor"]): p.parallelism for p in points if p.mode.value == "weak"}
    assert [(degrees.data, degrees.group_batch) for degrees in groups.values() if degrees] == [
        (4, 4),
        (2, 8),
        (1, 16),
        (8, 4),
        (4, 8),
        (2, 16),
    ]
    # One curve for each family.
    assert len({p.series for p in points}) == 6


def test_points_without_a_layout_stay_as_they_were() -> None:
    (point, *_) = expand_points(layouts({"strategy": "ddp"}).spec)
    assert point.parallelism is None
    assert "parallelism" not in point.wire()


def test_commands_have_the_degrees_and_not_the_batch_of_a_worker() -> None:
    assert not problems({**CUSTOM, "model": "any", "parallelism": {"tensor": 2}})
    broken = problems({**CUSTOM, "command": ["train", "{batchPerWorker}"], "model": "any", "parallelism": {}})
    assert "unknown placeholder {batchPerWorker}" in broken[0]
    assert "{groupBatch}" in broken[0]
    assert problems({**CUSTOM, "model": "any"}), "without parallelism {tensor} is unknown"
    broken = problems({**CUSTOM, "model": "any", "parallelism": {"tensor": 16}})
    assert "product divides 4, the workers of a point" in broken[0]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_of_other_launchers_are_valid_and_name_every_degree_they_sweep(recipe: Path) -> None:
    text = recipe.read_text()
    validated = validate_text(text, recipe.name)
    assert not validated.problems, [str(problem) for problem in validated.problems]
    assert "{tensor}" in text
    assert "{pipeline}" in text
