"""Validation error over the samples of a step of all workers."""

from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.spec.trial import TrialSpec
from tests.analysis.synthetic import Truth, experiment, write_bundle

NAME = "error-over-batch"
SIZES = {"modes": ["weak"], "workers": [1, 2], "repetitions": 2, "windows": 2, "steps_per_window": 5}


def trained(trial: TrialSpec) -> list[Evaluation]:
    """An error of a thousandth of the batch."""
    accuracy = 1 - (trial.point.global_batch or 0) / 1000
    return [Evaluation(epoch=1, step=20, wall_s=1.0, train_loss=1.0, loss=1.0, accuracy=accuracy)]


def tips(folder: Path, *, learns: bool = True, **spec: object) -> list[str]:
    of = experiment("batches", **{**SIZES, **spec})  # type: ignore[arg-type]
    bundle = open_bundle(write_bundle(folder, of, Truth(), evaluations=trained if learns else None))
    plots = {plot.name: plot for plot in compose(analyze([bundle]), png=False).plots}
    return list(plots[NAME].tips) if NAME in plots else []


def test_a_batch_is_that_of_all_workers_and_a_line_shares_everything_else(tmp_path: Path) -> None:
    matrix = {"batch.perWorker": [32, 64], "options.labelSmoothing": [0.0, 0.1]}
    assert tips(tmp_path, matrix=matrix) == [
        "labelSmoothing=0.0, batch 32 on 1 worker: error 3.20 %",
        "labelSmoothing=0.0, batch 64 on 1 worker: error 6.40 %",
        "labelSmoothing=0.0, batch 128 on 2 workers: error 12.80 %",
        "labelSmoothing=0.1, batch 32 on 1 worker: error 3.20 %",
        "labelSmoothing=0.1, batch 64 on 1 worker: error 6.40 %",
        "labelSmoothing=0.1, batch 128 on 2 workers: error 12.80 %",
    ]


def test_one_batch_or_no_accuracy_draws_nothing(tmp_path: Path) -> None:
    assert tips(tmp_path / "one", workers=[1]) == []
    assert tips(tmp_path / "none", learns=False) == []
