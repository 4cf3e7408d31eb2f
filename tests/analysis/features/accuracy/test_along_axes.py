"""What training reached over the values of an axis and over workers: by hand, and as figures."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.features.accuracy.plots.training import draw_worker_panels, fit
from scalecurve.features.accuracy.plots.training_axes import draw_axis_panels
from scalecurve.features.accuracy.results import training
from scalecurve.features.accuracy.results.along_axes import along_axes
from scalecurve.reporting.findings import analyze
from scalecurve_api.features.accuracy.facts import Evaluation
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
    analysis = analyze([bundle])
    drawings = [draw(analysis) for draw in (fit, draw_worker_panels, draw_axis_panels)]
    assert all(drawings)
    by_epoch, by_workers, by_value = (SimpleNamespace(**vars(drawing)) for drawing in drawings)
    assert "training 65.0 %, validation 60.0 %" in by_epoch.tips[0]
    assert any("2 workers: Epoch time (s) 0.5" in tip for tip in by_workers.tips)
    assert any("0.01: Time to target (s) 3" in tip for tip in by_value.tips)
    # 0.001 never gets to 80 %: all of its epochs, and the accuracy that they came to.
    assert "1 worker, optimizer.learningRate 0.001: Epochs to target 9 (not reached; 60.0 % by then)" in by_value.tips
    assert "2 workers, optimizer.learningRate 0.001: Time to target (s) 4.5 (not reached; 60.0 % by then)" in (
        by_value.tips
    )


def test_every_axis_has_panels_of_accuracy_epochs_and_time_with_a_legend_of_their_own(bundle: Bundle):
    drawing = draw_axis_panels(analyze([bundle]))
    assert drawing is not None
    accuracy, epochs, seconds = drawing.figure.axes
    assert [panel.get_ylabel() for panel in drawing.figure.axes] == [
        "Validation accuracy",
        "Epochs to target of 80.0 %",
        "Time to target of 80.0 % (s) (log scale)",
    ]
    assert {panel.get_xlabel() for panel in drawing.figure.axes} == {"optimizer.learningRate (log scale)"}
    legends = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in (accuracy, epochs)]
    assert legends[0] == ["1 worker", "2 workers"]
    assert [text.replace("\n", " ") for text in legends[1]] == ["target not reached: after the last epoch"]
    assert seconds.get_legend() is None
    # Two lines with the same values stand beside each other.
    one, two = (line.get_xdata() for line in accuracy.get_lines() if line.get_label() in legends[0])
    assert all(first < second for first, second in zip(one, two, strict=True))


def test_one_value_at_one_count_has_neither_figure(tmp_path: Path):
    single = rates("one", [1], [0.01])
    analysis = analyze([open_bundle(write_bundle(tmp_path / "one", single, tables=False, evaluations=learned))])
    assert fit(analysis) is not None
    assert draw_worker_panels(analysis) is None
    assert draw_axis_panels(analysis) is None
