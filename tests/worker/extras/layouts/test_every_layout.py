"""Every layout of small models on 1 and 2 processes, and some on 8, compute what one process computes."""

from pathlib import Path

import pytest

from tests.worker.extras.layouts.every_layout import MODELS, every_layout, trial
from tests.worker.extras.layouts.runs import run, valid

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("workers", [1, 2])
def test_every_layout_of_few_processes(workers: int, model: str, tmp_path: Path) -> None:
    valid(run(tmp_path, workers, {name: ("none", each) for name, each in every_layout(workers, model)}))


def test_eight_processes_train_products_of_three_dimensions(tmp_path: Path) -> None:
    """More than the cores of a small machine: for function only. `benchmarks.layout_equality` runs all of 4 and 8."""
    dense, mixture, pictures = (MODELS[model] for model in ("llama_tiny", "mixture_tiny", "resnet20"))
    results = run(
        tmp_path,
        8,
        {
            "dense": ("none", trial(8, "llama_tiny", dense, tensor=2, pipeline=2, shard=2)),
            "mixture": ("none", trial(8, "mixture_tiny", mixture, expert=2, pipeline=2, replicate=2)),
            "pictures": ("none", trial(8, "resnet20", pictures, pipeline=4, replicate=2, microBatches=4)),
        },
    )
    valid(results)
