"""What training reached over the values of an axis and over workers: by hand, and as figures."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.plots.training import fit, over_values, over_workers
from scalecurve.training_results import training
from scalecurve.training_results.along_axes import along_axes
from scalecurve_api.record.rank import Evaluation
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec
from tests.analysis.synthetic import experiment, write_bundle

RATES = {0.001: 0.6, 0.01: 0.9, 0.1: 0.895}  # accuracy after the last epoch, by learning rate


def rates(name: str, workers: list[int], values: list[float]) -> ScalingExperiment:
    return experiment(
        name,
        modes=["weak"],
        workers=workers,
        workload={"model": "resnet20", "data": {"source": "digits"}},
        matrix={"optimizer.learningRate": values},
        measure={"windows": 2, "stepsPerWindow": 5, "repetitions": 3, "accuracy": {"epochs": 9, "target": 0.8}},
    )


def learned(trial: TrialSpec) -> list[Evaluation]:
    """Steady after epoch 3; repetitions are 1 point apart, 2 workers take half the time."""
    last = RATES[float(trial.point.axes["optimizer.learningRate"])] + 0.01 * (trial.repetition - 1)
    return [
        Evaluation(
            epoch=epoch,
            step=epoch * 20,
            wall_s=epoch / trial.point.workers,
            train_loss=1 / epoch,
            loss=1 / epoch,
            accuracy=last * min(1.0, epoch / 3),
            train_accuracy=min(1.0, last + 0.05),
        )
        for epoch in range(1, 10)
    ]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(
        write_bundle(
            tmp_path_factory.mktemp("rates") / "bundle",
            rates("rates", [1, 2], list(RATES)),
            tables=False,
            evaluations=learned,
        )
    )


def test_a_verdict_for_every_value_at_every_worker_count(bundle: Bundle):
    results = along_axes(training([bundle]).points)
    assert [(r.training.point.workers, r.value, r.verdict) for r in results] == [
        (1, 0.001, "behind the best"),
        (1, 0.01, "best"),
        (1, 0.1, "tied with the best"),
        (2, 0.001, "behind the best"),
        (2, 0.01, "best"),
        (2, 0.1, "tied with the best"),
    ]
    assert results[0].behind is not None
    assert results[0].behind.value == pytest.approx(0.3)
    # Equal variances of 1 point, 3 runs each: t(4) = 2.776 times sqrt(2/3) points.
    assert results[0].behind.low == pytest.approx(0.3 - 2.7764451 * 0.01 * (2 / 3) ** 0.5)


def test_figures_of_training_have_the_numbers(bundle: Bundle):
    findings = analyze([bundle])
    drawings = [draw(findings) for draw in (fit, over_workers, over_values)]
    assert all(drawings)
    by_epoch, by_workers, by_value = (SimpleNamespace(**vars(drawing)) for drawing in drawings)
    assert "training 65.0 %, validation 60.0 %" in by_epoch.tips[0]
    assert any("2 workers: Epoch time (s) 0.5" in tip for tip in by_workers.tips)
    assert any("0.01: Time to target (s) 3" in tip for tip in by_value.tips)
    # 0.001 never gets to 80 %, and has no mark among the epochs to it.
    assert not any("0.001: Epochs to target" in tip for tip in by_value.tips)


def test_one_value_at_one_count_has_neither_figure(tmp_path: Path):
    single = rates("one", [1], [0.01])
    findings = analyze([open_bundle(write_bundle(tmp_path / "one", single, tables=False, evaluations=learned))])
    assert fit(findings) is not None
    assert over_workers(findings) is None
    assert over_values(findings) is None
