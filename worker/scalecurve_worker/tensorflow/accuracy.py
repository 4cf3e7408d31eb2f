"""Training to accuracy under TensorFlow: fresh parameters, and rank 0's evaluation of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.data import DataSource
from scalecurve_worker.data.decoding import open_image_list
from scalecurve_worker.data.small_sets import read_images
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.tensorflow.data import arrays, image_folder
from scalecurve_worker.tensorflow.data.sampler import Epochs, in_order
from scalecurve_worker.tensorflow.framework import keras, tf
from scalecurve_worker.tensorflow.job import TensorFlowJob
from scalecurve_worker.tensorflow.training import ReplicaTrainer, components, cross_entropy
from scalecurve_worker.training.accuracy import EpochResult, train_epochs

Batches = Callable[[], Iterator[tuple[Any, Any]]]


def train_to_accuracy(job: TensorFlowJob, bench: Bench, data: Epochs, goal: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch, until the target or the last epoch."""
    workload, workers = job.workload, job.trial.point.workers
    train_epochs(ReplicaLearner(job, data), bench, goal, workload.optimizer, workers, workload.options.reshuffle)


class ReplicaLearner:
    """A freshly built model with its data; see :class:`~scalecurve_worker.training.accuracy.Learner`.

    The model that is evaluated is rank 0's first replica, as a checkpoint would be.
    """

    def __init__(self, job: TensorFlowJob, data: Epochs) -> None:
        keras.utils.set_random_seed(job.trial.seed)
        replication = job.replication
        self._data = data
        self.steps = len(data)
        self._trainer = ReplicaTrainer(
            replication.strategy, job.config.build, job.workload.optimizer, replication.across
        )
        self._validation = Validation(job) if job.communicator.rank == 0 else None

    def batches(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        return self._data.epoch(epoch)

    def update(self, batch: tuple[Any, Any]) -> Any:
        return self._trainer.update(batch)

    def set_rate(self, rate: float) -> None:
        self._trainer.set_rate(rate)

    def evaluate(self, train_loss: float, seconds: float) -> EpochResult:
        answers = self._validation.evaluate(self._trainer) if self._validation else (0, 0, 0.0)
        return EpochResult(*answers, train_loss=train_loss, seconds=seconds)

    def noise_scale(self, epoch: int) -> None:
        return None


class Validation:
    """The validation set, and a model without any strategy that takes over the trained values.

    Read through a strategy, running statistics of batch norm would be the replicas' mean, and a collective of all
    processes.
    """

    def __init__(self, job: TensorFlowJob) -> None:
        self._items, self._batches = _validation(job)
        self._device = job.devices.names[0]
        with tf.device(self._device):
            self._model = job.config.build()
        self._step = tf.function(self._answers, reduce_retracing=True)

    def evaluate(self, trainer: ReplicaTrainer) -> tuple[int, int, float]:
        """Correct answers, answers and summed loss over the whole validation set."""
        pairs = zip(self._model.variables, trainer.model.variables, strict=True)
        for variable, trained in pairs:
            variable.assign(components(trainer.strategy, trained)[0])
        right, loss = 0, 0.0
        with tf.device(self._device):
            for inputs, targets in self._batches():
                answers, mean = self._step(inputs, targets)
                right += int(answers)
                loss += float(mean) * len(targets)
        return right, self._items, loss

    def _answers(self, inputs: Any, targets: Any) -> tuple[Any, Any]:
        logits = self._model(inputs, training=False)
        right = tf.equal(tf.argmax(logits, axis=-1, output_type=targets.dtype), targets)
        return tf.math.count_nonzero(right), cross_entropy(logits, targets)


def _validation(job: TensorFlowJob) -> tuple[int, Batches]:
    data, shape, batch = job.workload.data, job.config.shape, job.config.batch
    path = Path(data.path).expanduser() if data.path else None
    if data.source is DataSource.image_folder:
        images = open_image_list(path or Path(), "val", shape=shape, classes=job.config.classes)
        middles = image_folder.middles(images, shape)
        return len(images), lambda: in_order(len(images), batch, middles)
    held = read_images(data.source.value, path, "val")
    items, made = len(held.labels), arrays.as_they_are(held, shape)
    return items, lambda: in_order(items, batch, made)
