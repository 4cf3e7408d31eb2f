"""Loss curves of a bundle's trials: evaluations where they trained to accuracy, else the losses of their steps."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import FileError, UnusableFile
from scalecurve.bundle.steps import read_table
from scalecurve.bundle.trial import Trial
from scalecurve.features.accuracy.results.outcome import training_run
from scalecurve_api.record.tables import STEPS_FILE
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_models.fitting.least_squares import Array

VALIDATION, TRAINING, STEPS = "validation loss", "training loss", "step loss"
CIFAR_DEPTHS = frozenset({20, 32, 44, 56, 110})
"""ResNets for small images have 6n+2 layers; 18, 34, 50, 101 and 152 are another family."""
_NAME = re.compile(r"(resnet|preresnet|resnext|vgg|densenet)_?(\d+)(?:_(\w+))?")


@dataclass(frozen=True)
class LearningCurve:
    """The loss of one trial over its steps; ``accuracies`` and ``seconds`` (of training) only of evaluations."""

    trial: Trial
    record: TrialRecord
    kind: str
    steps: Array
    losses: Array
    accuracies: Array | None = None
    seconds: Array | None = None

    def first_at(self, target_loss: float | None, target: float | None) -> int | None:
        """Index of the first point at the target loss, else at the target accuracy; None if there is none."""
        if target_loss is not None:
            met = self.losses <= target_loss
        elif target is not None and self.accuracies is not None:
            met = self.accuracies >= target
        else:
            return None
        return int(met.argmax()) if met.any() else None

    @property
    def device(self) -> str:
        return ", ".join(sorted({rank.device_name for rank in self.record.topology}))


def depth_and_family(model: str) -> tuple[int | None, str]:
    """``resnet50`` is depth 50 of resnet, ``resnet56`` of the CIFAR kind; other nets have no depth in their name."""
    match = _NAME.fullmatch(model)
    if match is None:
        return None, model
    name, depth = match.group(1), int(match.group(2))
    small = name == "resnet" and (depth in CIFAR_DEPTHS or match.group(3) == "cifar")
    return depth, "resnet (6n+2)" if small else name


def learning_curves(
    bundle: Bundle, of_steps: Callable[[TrialRecord], bool] = lambda record: True, *, training: bool = False
) -> tuple[tuple[LearningCurve, ...], tuple[UnusableFile, ...]]:
    """The curve of every valid trial that has one, and the tables that could not be read.

    Without evaluations, step losses are read for the trials that ``of_steps`` selects. ``training`` takes the losses on
    which evaluated runs were trained: means over an epoch each, which stand at its middle step.
    """
    curves: list[LearningCurve] = []
    problems: list[UnusableFile] = []
    for trial in bundle.trials:
        if not trial.good or trial.record is None:
            continue
        try:
            curves += _curves(trial, trial.record, of_steps, training)
        except FileError as error:
            problems.append(UnusableFile(f"trials/{trial.name}/{STEPS_FILE}", str(error)))
    return tuple(curves), tuple(problems)


def _curves(
    trial: Trial, record: TrialRecord, of_steps: Callable[[TrialRecord], bool], training: bool
) -> Iterator[LearningCurve]:
    rows = sorted(training_run(record), key=lambda row: row.step)
    if rows and training:
        ends = np.array([0, *(row.step for row in rows)], dtype=np.float64)
        middle, losses = (ends[1:] + ends[:-1]) / 2, np.array([row.train_loss for row in rows])
        yield LearningCurve(trial, record, TRAINING, middle, losses)
    elif rows:
        yield LearningCurve(
            trial=trial,
            record=record,
            kind=VALIDATION,
            steps=np.array([row.step for row in rows], dtype=np.float64),
            losses=np.array([row.loss for row in rows]),
            accuracies=np.array([row.accuracy for row in rows]),
            seconds=np.array([row.wall_s for row in rows]),
        )
    elif STEPS_FILE in record.files and of_steps(record):
        steps, losses = step_losses(trial)
        if len(steps):
            yield LearningCurve(trial, record, STEPS, steps, losses)


def step_losses(trial: Trial) -> tuple[Array, Array]:
    """The mean loss over ranks of every step that has one; empty where no loss was recorded.

    Raises FileError when the table is missing, does not match its sha256, or is no table of steps.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    data = read_table(trial, STEPS_FILE)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        steps, losses = [], []
        for group in range(file.metadata.num_row_groups):
            columns = file.read_row_group(group, columns=["step", "loss"], use_threads=False)
            known = columns.filter(pc.is_valid(columns["loss"])) if columns["loss"].null_count else columns
            steps.append(np.from_dlpack(known["step"].combine_chunks()))
            losses.append(np.from_dlpack(known["loss"].combine_chunks()).astype(np.float64))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise FileError(f"not a step table: {str(error).splitlines()[0][:200]}") from error
    all_steps = np.concatenate(steps) if steps else np.zeros(0, dtype=np.int32)
    if not len(all_steps):
        return np.zeros(0), np.zeros(0)
    distinct, place = np.unique(all_steps, return_inverse=True)
    sums = np.bincount(place, np.concatenate(losses))
    return distinct.astype(np.float64), sums / np.bincount(place)
