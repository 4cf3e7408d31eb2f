"""Time of a step and of an epoch over the samples of a step of all workers."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting.drawing import Drawing
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.plots.times_over_batch import times_over_batch
from scalecurve_api.spec.experiment import Cost
from tests.analysis.synthetic import Truth, experiment, write_bundle

SIZES = {"modes": ["weak"], "workers": [1, 2], "repetitions": 2, "windows": 2, "steps_per_window": 5}


def drawn(folder: Path, price: Cost | None = None, **spec: object) -> Drawing | None:
    """Steps of a millisecond a sample of a worker."""
    of = experiment("batches", **{**SIZES, **spec})  # type: ignore[arg-type]
    truth = Truth(step_s=lambda point: (point.batch_per_worker or 0) / 1000, repetition_cv=0.0, step_cv=0.0)
    return times_over_batch(analyze([open_bundle(write_bundle(folder, of, truth, tables=False))], price))


def test_a_line_for_each_worker_count_over_its_batches(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, matrix={"batch.perWorker": [32, 64]})
    assert drawing is not None
    steps, work = drawing.figure.axes
    labels = [panel.get_ylabel() for panel in (steps, work)]
    assert labels == ["Step (ms) (log scale)", "Million samples (s) (log scale)"]
    lines = [line for line in steps.get_lines() if line.get_label() in ("1 worker", "2 workers")]
    assert [list(line.get_ydata()) for line in lines] == [pytest.approx([32, 64])] * 2
    assert "1 worker, batch 64 on 1 worker: Step (ms) 64" in drawing.tips
    assert "2 workers, batch 128 on 2 workers: Million samples (s) 500" in drawing.tips


def test_the_epoch_where_its_size_is_known(tmp_path: Path) -> None:
    price = Cost(per_worker_hour=1.0, dataset_samples=6400)
    drawing = drawn(tmp_path, price, matrix={"batch.perWorker": [32, 64]})
    assert drawing is not None
    assert "1 worker, batch 32 on 1 worker: Epoch (s) 6.4" in " ".join(drawing.tips)


def test_one_batch_of_a_worker_grows_with_the_worker_count(tmp_path: Path) -> None:
    drawing = drawn(tmp_path)
    assert drawing is not None
    (legend,) = drawing.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["64 per worker"]
    assert "on 2 workers: Step (ms) 64" in " ".join(drawing.tips)


def test_one_batch_draws_nothing(tmp_path: Path) -> None:
    assert drawn(tmp_path, modes=["strong"]) is None
