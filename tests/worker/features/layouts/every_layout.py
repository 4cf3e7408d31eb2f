"""Every layout that is legal for a small model at a worker count, as trials."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.parallelism import PipelineSchedule
from scalecurve_api.spec.trial import TrialSpec
from tests.worker.worker_ranks import make_trial

BATCH = 8
QUICK = {"warmupSteps": 1, "maxWarmupSteps": 1, "windows": 1, "stepsPerWindow": 2}
TEXT = {"data": {"sequenceLength": 32}}
PICTURES = {"data": {"shape": [3, 16, 16], "classes": 5}}
MODELS: dict[str, dict[str, Any]] = {
    "llama_tiny": TEXT,
    "gpt2_tiny": TEXT,
    "mixture_tiny": TEXT,
    "resnet20": PICTURES,
}


def trial(workers: int, model: str, fields: dict[str, Any], **degrees: Any) -> TrialSpec:
    """A strong point of one node; the degrees are those of the layout, replicate 1 unless stated."""
    made = _trial(workers, model, fields, degrees)
    assert made is not None
    assert not list(made.workload.problems(workers, 1))
    return made


def every_layout(workers: int, model: str) -> Iterator[tuple[str, TrialSpec]]:
    """Each layout of a model by its name: all degrees, all schedules of a pipeline."""
    divisors = [size for size in range(1, workers + 1) if workers % size == 0]
    for sizes in product(divisors, repeat=len(Dimension)):
        degrees: dict[str, Any] = dict(zip(Dimension, sizes, strict=True))
        for schedule in PipelineSchedule if degrees["pipeline"] > 1 else [PipelineSchedule.one_f_one_b]:
            made = _trial(workers, model, MODELS[model], {**degrees, "schedule": schedule})
            if made is None or list(made.workload.problems(workers, 1)):
                continue
            assert made.point.parallelism is not None
            batch = made.point.parallelism.group_batch
            if batch is None or batch % made.point.parallelism.micro_batches:
                continue
            name = made.point.parallelism.spelled + (f" {schedule.value}" if degrees["pipeline"] > 1 else "")
            yield name.replace(" ", "-"), made


def _trial(workers: int, model: str, fields: dict[str, Any], degrees: dict[str, Any]) -> TrialSpec | None:
    workload = {"model": model, "parallelism": {"replicate": 1, **degrees}, **fields}
    made = make_trial(workers, workload=workload, measure=QUICK)
    assert made.workload.layout is not None
    place = made.workload.layout.degrees(workers, workers, BATCH)
    if place is None:
        return None
    point = made.point.model_copy(update={"parallelism": place, "global_batch": BATCH, "batch_per_worker": None})
    return made.model_copy(update={"point": point})
