"""Every layout of small models on 1 and 2 processes, and some on 8, compute what one process computes."""

from pathlib import Path

import pytest

from tests.worker.features.layouts.every_layout import MODELS, every_layout, trial
from tests.worker.features.layouts.runs import Results, run, valid

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[1, 2])
def few(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All layouts of all models on so many processes, named ``model/layout``."""
    workers = request.param
    out = tmp_path_factory.mktemp(f"layouts-{workers}")
    for model in MODELS:
        (out / model).mkdir()
    return run(
        out,
        workers,
        {f"{model}/{name}": ("none", each) for model in MODELS for name, each in every_layout(workers, model)},
    )


@pytest.mark.parametrize("model", MODELS)
def test_every_layout_of_few_processes(few: Results, model: str) -> None:
    valid(few.of(*(name for name in few if name.startswith(f"{model}/"))))


def test_eight_processes_train_products_of_three_dimensions(tmp_path: Path) -> None:
    """More than the cores of a small machine: for function only."""
    dense, mixture = (MODELS[model] for model in ("llama_tiny", "mixture_tiny"))
    results = run(
        tmp_path,
        8,
        {
            "dense": ("none", trial(8, "llama_tiny", dense, tensor=2, pipeline=2, shard=2)),
            "mixture": ("none", trial(8, "mixture_tiny", mixture, expert=2, pipeline=2, replicate=2)),
        },
    )
    valid(results)
