"""Training to accuracy, after timing, for any framework: an evaluation after every epoch."""

import json
import math
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from scalecurve_api.features.accuracy.facts import EVALUATIONS, EVALUATIONS_FILE, Evaluation
from scalecurve_api.features.noise_scale.facts import NOISE_SCALE, NoiseScaleRow
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.record.facts.dataset import DATASET
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.training.learning_rate import changes, rate_at


@dataclass(frozen=True)
class EpochResult:
    """One rank's share of an epoch's evaluation, and of the answers that training itself gave, where it counts them.

    ``loss`` is summed over the ``counted`` items of the validation set.
    """

    correct: int = 0
    counted: int = 0
    loss: float = 0.0
    train_correct: int = 0
    train_counted: int = 0
    train_loss: float = 0.0
    seconds: float = 0.0


class Learner(Protocol):
    """A model in training, as its framework has it."""

    steps: int
    """Updates of an epoch."""

    def batches(self, epoch: int) -> Iterable[Any]:
        """Return what each update of an epoch takes."""

    def update(self, batch: Any) -> Any:
        """Perform one update; return its loss, a scalar on the device."""

    def set_rate(self, rate: float) -> None:
        """Set the learning rate from the next update on."""

    def evaluate(self, train_loss: float, seconds: float) -> EpochResult:
        """Return this rank's result of the epoch that has just been trained. Collective."""

    def noise_scale(self, epoch: int) -> NoiseScaleRow | None:
        """Return the gradient noise scale of the epoch, where it is measured. Collective."""


def train_epochs(
    learner: Learner, bench: Bench, goal: Accuracy, rule: Optimizer, workers: int, reshuffle: bool
) -> None:
    """Train and evaluate until the last epoch, or with ``goal.stop_at_target`` until the target.

    Rows go to ``evals.jsonl`` as they come and into rank 0's record. A loss that is not finite ends it.
    """
    world = bench.session.communicator
    varies = changes(rule) or rule.scale_with_workers
    wall_s = 0.0
    for epoch in range(goal.epochs):
        world.barrier()
        began = time.monotonic()
        losses: Any = 0.0
        for index, batch in enumerate(learner.batches(epoch if reshuffle else 0)):
            if varies:
                learner.set_rate(rate_at(rule, epoch + index / learner.steps, goal.epochs, workers))
            losses += learner.update(batch)
        train_loss = float(losses) / learner.steps
        result = learner.evaluate(train_loss, time.monotonic() - began)
        results = [EpochResult(**fields) for fields in world.all_gather(asdict(result))]
        wall_s += max(each.seconds for each in results)
        row = evaluation_of(epoch + 1, learner.steps, wall_s, results)
        if row is None:
            bench.not_finite()
            break
        noise = learner.noise_scale(epoch + 1)
        if world.rank == 0:
            _keep(bench.session, row)
            if noise is not None:
                NOISE_SCALE.extend(bench.session.facts, [noise])
        if goal.stop_at_target and goal.target is not None and row.accuracy >= goal.target:
            break


def _keep(session: Session, row: Evaluation) -> None:
    """Add a row to the record, and to ``evals.jsonl`` at once: a training that is killed leaves what it reached."""
    EVALUATIONS.extend(session.facts, [row])
    if session.out is not None:
        with (session.out / EVALUATIONS_FILE).open("a") as file:
            file.write(json.dumps(row.wire()) + "\n")
            file.flush()
            os.fsync(file.fileno())


def note_test_result(bench: Bench, items: int, result: EpochResult) -> None:
    """Note how the trained model did on the test set, from all ranks' shares. Collective.

    Once, after the last epoch: nothing is chosen by it.
    """
    results = [EpochResult(**fields) for fields in bench.session.communicator.all_gather(asdict(result))]
    facts = bench.session.facts
    if (data := DATASET.of(facts)) is not None:
        right, counted = (sum(getattr(each, name) for each in results) for name in ("correct", "counted"))
        DATASET.put(facts, data.model_copy(update={"test": items, "test_accuracy": right / counted}))


def evaluation_of(epoch: int, steps: int, wall_s: float, results: list[EpochResult]) -> Evaluation | None:
    """Combine the results of all ranks into one row; None where a loss is not finite."""
    counted = sum(each.counted for each in results)
    train_counted = sum(each.train_counted for each in results)
    train_loss = sum(each.train_loss for each in results) / len(results)
    loss = sum(each.loss for each in results) / counted
    if not (math.isfinite(train_loss) and math.isfinite(loss)):
        return None
    return Evaluation(
        epoch=epoch,
        step=epoch * steps,
        wall_s=wall_s,
        train_loss=train_loss,
        loss=loss,
        accuracy=sum(each.correct for each in results) / counted,
        train_accuracy=sum(each.train_correct for each in results) / train_counted if train_counted else None,
    )
