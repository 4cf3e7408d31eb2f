"""Points of a search: each judged by itself, and excluded where it cannot run."""

from typing import Any

from scalecurve.planning.candidates import RefusalGround, grouped, sift
from scalecurve_api.planning.plan import expand_points
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation.rules import check


def form(model: str, workers: list[int], matrix: dict[str, Any], **spec: Any) -> ScalingExperiment:
    return ScalingExperiment.model_validate(
        {
            "apiVersion": "scalecurve.dev/v1alpha1",
            "kind": "ScalingExperiment",
            "metadata": {"name": "big"},
            "spec": {
                "scaling": {"modes": ["strong"], "workers": workers, "batch": {"global": 8}},
                "workload": {
                    "model": model,
                    "data": {"sequenceLength": 512},
                    "optimizer": {"name": "adamw"},
                    "parallelism": {"replicate": 1, "shard": "auto"},
                },
                "matrix": matrix,
                **spec,
            },
        }
    )


def test_illegal_and_too_large_points_are_refused_and_the_rest_is_valid() -> None:
    matrix = {"parallelism.tensor": [1, 2, 4, 8], "parallelism.pipeline": [1, 2, 3]}
    made = form("llama_8b", [1, 8], matrix)
    assert check(made), "as it is, no product of 3 stages is legal"
    candidates = sift(made, 141)
    grounds = {(each.point.workers, each.ground) for each in candidates.refused}
    assert grounds == {(1, RefusalGround.illegal), (1, RefusalGround.memory), (8, RefusalGround.illegal)}
    (large,) = [each for each in candidates.refused if each.ground is RefusalGround.memory]
    assert "parameters" in large.why
    assert large.why.endswith("and the device has 141 GB")
    assert not check(candidates.experiment)
    assert list(expand_points(candidates.experiment.spec)) == list(candidates.points)
    # Four degrees of tensor without a pipeline, three with two stages.
    assert {key: len(members) for key, members in grouped(candidates.points).items()} == {("strong", 8, "1x8"): 7}
    assert candidates.largest_group == 7


def test_nothing_is_refused_of_what_is_valid() -> None:
    made = form("llama_8b", [8], {"parallelism.tensor": [1, 2, 4]})
    candidates = sift(made, None)
    assert (candidates.refused, candidates.experiment) == ((), made)


def test_the_memory_of_the_experiments_device_is_a_limit_too() -> None:
    made = form("llama_8b", [1, 8], {"parallelism.tensor": [1]}, resources={"deviceMemoryGb": 141})
    (refused,) = sift(made, None).refused
    assert (refused.point.workers, refused.ground) == (1, RefusalGround.memory)


def test_of_layouts_that_run_the_same_the_first_is_left() -> None:
    matrix = {"parallelism.pipeline": [1, 2], "parallelism.schedule": ["gpipe", "1f1b"], "precision": ["fp32", "bf16"]}
    candidates = sift(form("llama_1b", [2], matrix), None)
    assert [(each.ground, each.point.axes["parallelism.pipeline"]) for each in candidates.refused] == [
        (RefusalGround.same, 1),
        (RefusalGround.same, 1),
    ]
    assert candidates.refused[0].why == "runs as shard=2 schedule=gpipe precision=fp32 does"
    assert len(candidates.points) == 6
