"""The difference of two trainings, and the most accurate of several with its ties on a report's first screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.features.accuracy.results.by_approach import difference
from scalecurve.reporting.answer import Answer, answer
from scalecurve.reporting.findings import analyze
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.spec.trial import TrialSpec
from tests.analysis.synthetic import Truth, experiment, write_bundle
from tools import ROOT

TRANSFER = ROOT / "docs" / "evidence" / "training" / "transfer-learning.zip"
SEPARATE: Mapping[str, Sequence[float]] = {
    "head": (0.57, 0.58, 0.59),
    "all": (0.93, 0.94, 0.95),
    "scratch": (0.8, 0.81, 0.82),
}


def screen(folder: Path, finals: Mapping[str, Sequence[float]]) -> Answer:
    """Of three approaches, of which head is the fastest."""

    def ended(trial: TrialSpec) -> list[Evaluation]:
        final = finals[str(trial.point.axes["transfer.train"])][trial.repetition]
        return [Evaluation(epoch=1, step=1, wall_s=1.0, train_loss=1.0, loss=1.0, accuracy=final)]

    asked = experiment(
        "approaches",
        modes=["weak"],
        workers=[1],
        workload={
            "model": "resnet20",
            "strategy": "single",
            "data": {"source": "digits"},
            "transfer": {"checkpoint": "a.pt"},
        },
        matrix={"transfer.train": list(finals)},
        measure={
            "windows": 2,
            "stepsPerWindow": 5,
            "repetitions": len(next(iter(finals.values()))),
            "accuracy": {"epochs": 1},
        },
    )
    fast = Truth(step_s=lambda point: 0.05 if point.axes["transfer.train"] == "head" else 0.1, repetition_cv=0.001)
    return answer(analyze([open_bundle(write_bundle(folder, asked, fast, evaluations=ended, tables=False))]))


def test_a_difference_by_hand() -> None:
    # Variances of the means 1/3 and 4/3: t with 25/9 / (1/18 + 16/18) = 2.94 degrees, times the root of 5/3.
    found = difference([1.0, 2.0, 3.0], [0.0, 2.0, 4.0], 0.95)
    assert found.value == 0
    assert found.high == pytest.approx(4.155, rel=1e-3)
    assert found.low == pytest.approx(-4.155, rel=1e-3)
    assert difference([1.0], [0.5, 0.6], 0.95).low is None


def test_the_winner_is_the_most_accurate_and_not_the_fastest(tmp_path: Path) -> None:
    found = screen(tmp_path, SEPARATE)
    (winner,) = found.winners
    assert winner.startswith("Most accurate of 3, means of 3 repetitions: train=all, 94.0 %")
    assert "tied" not in winner
    ((_, (cell,)),) = found.prices.rows
    assert found.prices.by_accuracy
    assert cell is not None
    assert (cell.series, cell.tied) == ("train=all", 0)


@pytest.mark.parametrize("rival", [(0.92, 0.94, 0.96), (0.93, 0.94, 0.95)])
def test_a_tie_is_named(tmp_path: Path, rival: Sequence[float]) -> None:
    (winner,) = screen(tmp_path, {**SEPARATE, "scratch": rival}).winners
    assert winner.startswith("Most accurate of 3, means of 3 repetitions: train=all, 94.0 %")
    assert "; tied with train=scratch, 94.0 %" in winner
    assert "head" not in winner


def test_single_runs_crown_nobody(tmp_path: Path) -> None:
    (winner,) = screen(tmp_path, {name: finals[:1] for name, finals in SEPARATE.items()}).winners
    assert winner.startswith("Most accurate of 3: train=all, 93.0 %; not separable, in single runs, from train=scratch")


def test_the_transfer_learning_study_names_the_tied_and_not_the_fastest() -> None:
    found = answer(analyze([open_bundle(TRANSFER)]))
    assert found.winners == (
        "Most accurate of 9, means of 3 repetitions: train=scratch learningRate=0.1, 95.0 % (91.9–98.1); tied with "
        "train=all learningRate=0.1, 94.6 % (92.7–96.5); train=all learningRate=0.01, 94.3 % (92.2–96.5); and 1 more",
    )
    ((_, (cell,)),) = found.prices.rows
    assert cell is not None
    assert (cell.series, cell.tied) == ("train=scratch learningRate=0.1", 3)
