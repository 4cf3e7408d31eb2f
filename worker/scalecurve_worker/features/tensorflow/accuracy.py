"""Training to accuracy under TensorFlow: fresh parameters, and rank 0's evaluation of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.data import DataSource
from scalecurve_api.record.facts.dataset import DATASET
from scalecurve_worker.features.accuracy.evaluation import EpochResult, note_test_result, train_epochs
from scalecurve_worker.features.tensorflow.data import arrays, image_folder
from scalecurve_worker.features.tensorflow.data.sampler import Epochs, in_order
from scalecurve_worker.features.tensorflow.framework import keras, tf
from scalecurve_worker.features.tensorflow.job import TensorFlowJob, open_split
from scalecurve_worker.features.tensorflow.training import ReplicaTrainer, components, cross_entropy, right_answers
from scalecurve_worker.features.tensorflow.transfer import frozen_checksum, write_checkpoint
from scalecurve_worker.process.programs import Measuring
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.training.checkpoints import open_folder
from scalecurve_worker.training.data.image_list import has_test
from scalecurve_worker.training.data.images import FolderSplit
from scalecurve_worker.training.data.small_sets import read_images

Batches = Callable[[], Iterator[tuple[Any, Any]]]


def train_to_accuracy(job: TensorFlowJob, bench: Bench, data: Epochs, goal: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch."""
    workload, workers = job.workload, job.trial.point.workers
    facts, first = bench.session.facts, job.communicator.rank == 0
    if goal.checkpoints is not None and first:
        open_folder(goal.checkpoints)
    keras.utils.set_random_seed(job.trial.seed)
    learner = ReplicaLearner(job, data)
    if first:
        DATASET.put(facts, job.config.dataset_facts(learner.validation_items))
    train_epochs(learner, bench, goal, workload.optimizer, workers, workload.options.reshuffle)
    if workload.data.source is DataSource.image_folder and has_test(job.config.folder, workload.data.validation):
        held = Validation(job, "test") if first else None
        note_test_result(bench, held.items if held else 0, learner.result_of(held))
    facts.frozen_checksums += frozen_checksum(job.replication.strategy, learner.trainer.model)
    if first and goal.checkpoints is not None:
        path = write_checkpoint(job.replication.strategy, learner.trainer.model, goal.checkpoints, job.trial.name)
        facts.options["trainedParameters"] = str(path)


class ReplicaLearner:
    """A freshly built model with its data; see :class:`~scalecurve_worker.features.accuracy.evaluation.Learner`.

    The model that is evaluated is rank 0's first replica, as a checkpoint would be.
    """

    def __init__(self, job: TensorFlowJob, data: Epochs) -> None:
        self.trainer = job.trainer(job.workload.optimizer)
        self.trainer.watch = self._count
        self._data = data
        self.steps = len(data)
        replicas = len(job.replication.strategy.extended.worker_devices)
        self._images = job.config.batch * job.workload.data.instances * replicas  # of a step of this process
        self._validation = Validation(job, "val") if job.communicator.rank == 0 else None

    @property
    def validation_items(self) -> int:
        """Of rank 0, which has them."""
        return self._validation.items if self._validation else 0

    def update(self, batch: tuple[Any, Any]) -> Any:
        return self.trainer.update(batch)

    def set_rate(self, rate: float) -> None:
        self.trainer.set_rate(rate)

    def batches(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        self._right: Any = 0
        return self._data.epoch(epoch)

    def _count(self, right: Any) -> None:
        """Answers of the training's own forward passes, on the images and by the model that each step had."""
        self._right += right

    def evaluate(self, train_loss: float, seconds: float) -> EpochResult:
        trained = {"train_correct": int(self._right), "train_counted": self.steps * self._images}
        return replace(self.result_of(self._validation), **trained, train_loss=train_loss, seconds=seconds)

    def result_of(self, held: Validation | None) -> EpochResult:
        """Return rank 0's result; the other ranks have no images to hold out and return zeros."""
        return EpochResult(*(held.evaluate(self.trainer) if held else (0, 0, 0.0)))

    def noise_scale(self, epoch: int) -> None:
        return None


class Validation:
    """The validation or the test set, and a model without any strategy that takes over the trained values.

    Read through a strategy, running statistics of batch norm would be the replicas' mean, and a collective of all
    processes.
    """

    def __init__(self, job: TensorFlowJob, split: FolderSplit) -> None:
        self.items, self._batches = _open_held_out_set(job, split)
        self._device = job.devices.names[0]
        with tf.device(self._device):
            self._model = job.config.build()
        self._step = tf.function(self._answers, reduce_retracing=True)

    def evaluate(self, trainer: ReplicaTrainer) -> tuple[int, int, float]:
        """Count correct answers and all answers, and sum the loss, over the whole set."""
        for variable, trained in zip(self._model.variables, trainer.model.variables, strict=True):
            variable.assign(components(trainer.strategy, trained)[0])
        right, loss = 0, 0.0
        with tf.device(self._device):
            for inputs, targets in self._batches():
                answers, mean = self._step(inputs, targets)
                right += int(answers)
                loss += float(mean) * len(targets)
        return right, self.items, loss

    def _answers(self, inputs: Any, targets: Any) -> tuple[Any, Any]:
        logits = self._model(inputs, training=False)
        return right_answers(logits, targets), cross_entropy(logits, targets)


def _open_held_out_set(job: TensorFlowJob, split: FolderSplit) -> tuple[int, Batches]:
    data, shape, batch = job.workload.data, job.config.shape, job.config.batch
    if data.source is DataSource.image_folder:
        images = open_split(data, split, shape, job.config.classes)
        return len(images), partial(in_order, len(images), batch, image_folder.middles(images, shape))
    assert split != "test"
    held = read_images(data.source.value, job.config.folder, split)
    return len(held.labels), partial(in_order, len(held.labels), batch, arrays.batches_of(held, shape))


ACCURACY = Measuring(train_to_accuracy)
