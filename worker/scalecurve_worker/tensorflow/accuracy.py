"""Training to accuracy under TensorFlow, after timing: fresh parameters, an evaluation after every epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalecurve_api.programs.data import DataSource
from scalecurve_api.record.rank import Evaluation
from scalecurve_api.spec.measure import Accuracy
from scalecurve_worker.data.small_sets import read_images
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.tensorflow.data import arrays
from scalecurve_worker.tensorflow.data import image_folder as folder
from scalecurve_worker.tensorflow.data.sampler import Epochs, in_order
from scalecurve_worker.tensorflow.framework import keras, tf
from scalecurve_worker.tensorflow.training import ReplicaTrainer, components, cross_entropy
from scalecurve_worker.training.learning_rate import changes, rate_at

if TYPE_CHECKING:
    from scalecurve_worker.tensorflow.program import Job

Batches = Callable[[], Iterator[tuple[Any, Any]]]


def train_to_accuracy(job: Job, bench: Bench, data: Epochs, accuracy_spec: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch, until the target or the last epoch.

    Evaluations go to ``evals.jsonl`` as they come and into the records. A loss that is not finite ends it.
    """
    world, rule, workers = job.communicator, job.workload.optimizer, job.trial.point.workers
    keras.utils.set_random_seed(job.trial.seed)
    trainer = ReplicaTrainer(job.spread.strategy, job.asked.build, rule, job.spread.across)
    judge = Judge(job) if world.rank == 0 else None
    step, wall_s = 0, 0.0
    for epoch in range(accuracy_spec.epochs):
        world.barrier()
        began = time.monotonic()
        losses: Any = tf.zeros(())
        for index, batch in enumerate(data.epoch(epoch if job.workload.options.reshuffle else 0)):
            if changes(rule) or rule.scale_with_workers:
                trainer.set_rate(rate_at(rule, epoch + index / len(data), accuracy_spec.epochs, workers))
            losses += trainer.update(batch)
        train_loss = float(losses) / len(data)
        seconds = time.monotonic() - began
        step += len(data)
        # The model that is judged is rank 0's first replica, as a checkpoint would be.
        judged = judge(trainer) if judge else None
        # JSON has no NaN.
        ranks = world.all_gather([seconds, repr(train_loss), judged])
        wall_s += max(rank[0] for rank in ranks)
        accuracy, loss = ranks[0][2]
        row = {
            "epoch": epoch + 1,
            "step": step,
            "wall_s": wall_s,
            "train_loss": sum(float(rank[1]) for rank in ranks) / len(ranks),
            "loss": float(loss),
            "accuracy": accuracy,
        }
        if not (math.isfinite(row["train_loss"]) and math.isfinite(row["loss"])):
            bench.not_finite()
            break
        if world.rank == 0:
            bench.session.keep_evaluation(Evaluation.model_validate(row))
        if accuracy_spec.target is not None and accuracy >= accuracy_spec.target:
            break


class Judge:
    """The validation set, and a model without any strategy that takes over the trained values.

    Read through a strategy, running statistics of batch norm would be the replicas' mean, and a collective of all
    processes.
    """

    def __init__(self, job: Job) -> None:
        self._items, self._batches = _validation(job)
        self._device = job.devices.names[0]
        with tf.device(self._device):
            self._model = job.asked.build()
        self._step = tf.function(self._judge, reduce_retracing=True)

    def __call__(self, trainer: ReplicaTrainer) -> tuple[float, str]:
        """Share of right answers and mean loss, over the whole validation set."""
        pairs = zip(self._model.variables, trainer.model.variables, strict=True)
        for own, trained in pairs:
            own.assign(components(trainer.strategy, trained)[0])
        right, loss = 0, 0.0
        with tf.device(self._device):
            for inputs, targets in self._batches():
                found, mean = self._step(inputs, targets)
                right += int(found)
                loss += float(mean) * len(targets)
        return right / self._items, repr(loss / self._items)

    def _judge(self, inputs: Any, targets: Any) -> tuple[Any, Any]:
        logits = self._model(inputs, training=False)
        right = tf.equal(tf.argmax(logits, axis=-1, output_type=targets.dtype), targets)
        return tf.math.count_nonzero(right), cross_entropy(logits, targets)


def _validation(job: Job) -> tuple[int, Batches]:
    """Items of the validation set, and what gives its batches."""
    data, shape, batch = job.workload.data, job.asked.shape, job.batch
    path = Path(data.path).expanduser() if data.path else None
    if data.source is DataSource.image_folder:
        images = folder.open_folder(path or Path(), "val", shape=shape, classes=job.asked.classes)
        middles = folder.middles(images, shape)
        return len(images), lambda: in_order(len(images), batch, middles)
    held = read_images(data.source.value, path, "val")
    items, made = len(held.labels), arrays.as_they_are(held, shape)
    return items, lambda: in_order(items, batch, made)
