"""One optimizer update by a custom loop: Keras 3's ``fit`` fails under several workers, and times nothing well."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.features.tensorflow.optimizers import add_weight_decay, build_optimizer, make_optimizer


class ProcessGroup(Protocol):
    """This process among those that train one model."""

    rank: int
    size: int
    versions: dict[str, str]

    @property
    def name(self) -> str | None:
        """The class that adds up, as it is found there."""

    def tape(self, tape: Any) -> Any:
        """Return a tape whose gradients are the mean over all processes."""

    def start_alike(self, variables: Iterable[Any]) -> None:
        """Give Keras's variables the first process's values."""

    def leave(self) -> None:
        """Go, once all others may go too."""


class ReplicaTrainer:
    """A model and its optimizer, spread over replicas by a strategy, and over processes that it knows nothing of.

    The loss of a replica is the mean over its own batch, divided by the replicas for the gradient: summed over
    replicas that is the gradient of the mean over the global batch. Between processes ``across`` takes the mean.
    """

    def __init__(
        self,
        strategy: Any,
        build: Callable[[], Any],
        rule: Optimizer,
        across: ProcessGroup | None = None,
        smoothing: float = 0.0,
    ) -> None:
        """``smoothing`` is the share of a label that is spread over all classes."""
        self.strategy = strategy
        self._across, self._rule, self._smoothing = across, rule, smoothing
        with strategy.scope():
            self.model = build()
            self.optimizer = make_optimizer(rule)
            build_optimizer(self.optimizer, rule, self.model.trainable_variables)
        if across:
            across.start_alike([*self.model.variables, *self.optimizer.variables])
        self._replicas = strategy.num_replicas_in_sync
        # Nothing is counted in a timed window: for trainings to accuracy.
        self.watch: Callable[[Any], None] | None = None  # with each step's right answers, as a scalar on the device
        self._step = tf.function(self._run)

    def update(self, batch: tuple[Any, Any], communicate: bool = True) -> Any:
        """Take one step; return the mean loss of this process's replicas, a scalar on their device.

        Without communication there is no sum over replicas, which then go apart.
        """
        loss, *right = self._step(*batch, communicate)
        if self.watch is not None:
            self.watch(right[0])
        return loss

    def set_rate(self, rate: float) -> None:
        with self.strategy.scope():
            self.optimizer.learning_rate.assign(rate)

    def state(self) -> list[Any]:
        """List every variable that a step changes, replica by replica."""
        variables = {id(each): each for each in (*self.model.variables, *self.optimizer.variables)}
        return [own for each in variables.values() for own in components(self.strategy, each)]

    def loss(self, logits: Any, targets: Any) -> Any:
        """Return the mean loss of a batch."""
        return cross_entropy(logits, targets, self._smoothing)

    def add_weight_decay(self, gradients: list[Any], values: list[Any]) -> list[Any]:
        """Return a replica's gradients with its share of the weight decay that is part of them."""
        return add_weight_decay(self._rule, gradients, values, 1 / self._replicas)

    def _run(self, inputs: Any, targets: Any, communicate: bool) -> Any:
        """The mean loss, and with ``watch`` the number of right answers, over this process's replicas."""
        losses, *right = self.strategy.run(self._replica_step, args=(inputs, targets, communicate))
        local_losses = self.strategy.experimental_local_results(losses)
        loss = local_losses[0] if len(local_losses) == 1 else tf.add_n(local_losses) / len(local_losses)
        return loss, *(tf.add_n(self.strategy.experimental_local_results(each)) for each in right)

    def _replica_step(self, inputs: Any, targets: Any, communicate: bool) -> Any:
        variables = self.model.trainable_variables
        values = [variable.value for variable in variables]
        with tf.GradientTape() as tape:
            logits = self.model(inputs, training=True)
            loss = self.loss(logits, targets)
            share = loss / self._replicas
        if self._across and communicate:
            tape = self._across.tape(tape)
        gradients = self.add_weight_decay(tape.gradient(share, values), values)
        self.optimizer.communicate = communicate
        self.optimizer.apply(gradients, variables)
        return (loss,) if self.watch is None else (loss, right_answers(logits, targets))


def right_answers(logits: Any, targets: Any) -> Any:
    """Count the right answers of a batch: logits (batch, classes), targets (batch,)."""
    return tf.math.count_nonzero(tf.equal(tf.argmax(logits, axis=-1, output_type=targets.dtype), targets))


def cross_entropy(logits: Any, targets: Any, smoothing: float = 0.0) -> Any:
    """Average the cross entropy over the batch, in fp32: logits (batch, classes), targets (batch,).

    ``smoothing`` is the share of a label that is spread over all classes.
    """
    logits = tf.cast(logits, tf.float32)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))
    if not smoothing:
        return loss
    return (1 - smoothing) * loss - smoothing * tf.reduce_mean(tf.nn.log_softmax(logits))


def components(strategy: Any, variable: Any) -> tuple[Any, ...]:
    """Return the variables of TensorFlow, one for each replica of this process, behind one of Keras."""
    variables: tuple[Any, ...] = strategy.experimental_local_results(variable.value)
    return variables


def replica_checksums(strategy: Any, model: Any) -> list[str]:
    """Compute for each replica here a digest of names, shapes, types and bits of its trainable variables, by name.

    Running statistics of batch norm are excluded: they are each replica's own. Frozen layers have their own digest.
    """
    ordered = sorted(model.trainable_variables, key=lambda variable: str(variable.path))
    digests = [hashlib.blake2b(digest_size=16) for _ in components(strategy, ordered[0])]
    for variable in ordered:
        for digest, value in zip(digests, components(strategy, variable), strict=True):
            values = np.ascontiguousarray(value.numpy())
            digest.update(f"{variable.path}{values.shape}{values.dtype}".encode())
            digest.update(values.tobytes())
    return [digest.hexdigest() for digest in digests]


class NoAllReduce:
    """Each replica goes by its own gradient; afterwards every variable is put back."""

    kind = WindowKind.no_communication
    method: str | None = "no-all-reduce"

    def __init__(self, trainer: ReplicaTrainer) -> None:
        self._trainer = trainer
        self._kept: list[Any] = []

    def enter(self) -> None:
        self._kept = [tf.identity(variable) for variable in self._trainer.state()]

    def leave(self) -> None:
        for variable, value in zip(self._trainer.state(), self._kept, strict=True):
            variable.assign(value)
        self._kept = []
