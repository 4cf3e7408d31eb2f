from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalecurve_api.features.accuracy.facts import EVALUATIONS, EVALUATIONS_FILE
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.record.fact_kind import Recorded
from scalecurve_worker.features.accuracy.evaluation import EpochResult, train_epochs

RIGHT = (4, 7, 6, 9)  # of ten, after each epoch


class Learner:
    """One update an epoch, and answers that are known."""

    steps = 1

    def __init__(self) -> None:
        self._answers = iter(RIGHT)

    def batches(self, epoch: int) -> list[int]:
        return [epoch]

    def update(self, batch: int) -> float:
        return 1.0

    def set_rate(self, rate: float) -> None:
        raise AssertionError("the rate is constant")

    def evaluate(self, train_loss: float, seconds: float) -> EpochResult:
        return EpochResult(next(self._answers), 10, 1.0, train_loss=train_loss, seconds=seconds)

    def noise_scale(self, epoch: int) -> None:
        return None


@pytest.mark.parametrize(
    ("goal", "epochs"),
    [
        ({}, 4),
        ({"target": 0.7}, 4),
        ({"target": 0.7, "stop_at_target": True}, 2),
        ({"target": 1.0, "stop_at_target": True}, 4),
    ],
)
def test_training_ends_at_the_target_only_where_it_is_told_to(
    goal: dict[str, Any], epochs: int, tmp_path: Path
) -> None:
    facts = Recorded(facts={})
    world = SimpleNamespace(rank=0, barrier=lambda: None, all_gather=lambda value: [value])
    bench: Any = SimpleNamespace(session=SimpleNamespace(communicator=world, facts=facts, out=tmp_path))
    train_epochs(Learner(), bench, Accuracy(epochs=len(RIGHT), **goal), Optimizer(), 1, reshuffle=True)
    expected = [right / 10 for right in RIGHT[:epochs]]
    assert [row.accuracy for row in EVALUATIONS.of(facts)] == expected
    lines = (tmp_path / EVALUATIONS_FILE).read_text().splitlines()
    assert [json.loads(line)["accuracy"] for line in lines] == expected
