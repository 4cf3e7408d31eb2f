"""One optimizer update by a custom loop: Keras 3's ``fit`` fails under several workers, and times nothing well."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.tensorflow.framework import keras, tf


class ProcessGroup(Protocol):
    """This process among those that train one model."""

    rank: int
    size: int
    versions: dict[str, str]

    @property
    def name(self) -> str | None:
        """The class that adds up, as it is found there."""

    def tape(self, tape: Any) -> Any:
        """A tape whose gradients are the mean over all processes."""

    def start_alike(self, variables: Iterable[Any]) -> None:
        """Give Keras's variables the first process's values."""

    def leave(self) -> None:
        """Go, once all others may go too."""


class Lars(keras.optimizers.SGD):  # type: ignore[misc]  # Keras has no types
    """Y. You, I. Gitman, B. Ginsburg, arXiv:1708.03888, algorithm 1.

    Vectors (biases, norms' weights) are neither scaled nor decayed, as everybody who reproduced it does.
    """

    def __init__(self, learning_rate: float, momentum: float, decay: float, trust: float) -> None:
        super().__init__(learning_rate=learning_rate, momentum=momentum)
        self._layer_decay, self._trust = decay, trust

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if len(variable.shape) > 1:
            weight = tf.convert_to_tensor(variable)
            gradient = tf.cast(gradient, weight.dtype)
            norm = tf.norm(weight)
            ratio = self._trust * norm / (tf.norm(gradient) + self._layer_decay * norm + 1e-12)
            # A layer of zeros would never move.
            ratio = tf.where(norm > 0, ratio, tf.ones_like(ratio))
            gradient = (gradient + self._layer_decay * weight) * ratio
        super().update_step(gradient, variable, learning_rate)


_CLASSES = {
    "sgd": keras.optimizers.SGD,
    "adamw": keras.optimizers.AdamW,
    "adagrad": keras.optimizers.Adagrad,
    "lars": Lars,
    "lamb": keras.optimizers.Lamb,
}


class ReplicaTrainer:
    """A model and its optimizer, spread over replicas by a strategy, and over processes that it knows nothing of.

    The loss of a replica is the mean over its own batch, divided by the replicas for the gradient: summed over
    replicas that is the gradient of the mean over the global batch. Between processes ``across`` takes the mean.
    """

    def __init__(
        self, strategy: Any, build: Callable[[], Any], optimizer: Optimizer, across: ProcessGroup | None = None
    ) -> None:
        self.strategy = strategy
        self._across = across
        with strategy.scope():
            self.model = build()
            self.optimizer = make_optimizer(optimizer)
            self.optimizer.build(self.model.trainable_variables)
        if across:
            across.start_alike([*self.model.variables, *self.optimizer.variables])
        # SGD's weight decay is part of the gradient, as in torch; Keras's own would be taken off the parameter.
        self._decay = optimizer.weight_decay if optimizer.name == "sgd" else 0.0
        self._replicas = strategy.num_replicas_in_sync
        self._step = tf.function(lambda inputs, targets: self._run(inputs, targets, True))
        self._step_alone = tf.function(lambda inputs, targets: self._run(inputs, targets, False))

    def update(self, batch: tuple[Any, Any]) -> Any:
        """One step; the mean loss of this process's replicas, a scalar on their device."""
        return self._step(*batch)

    def update_alone(self, batch: tuple[Any, Any]) -> Any:
        """The same step without the sum over replicas, which then go apart."""
        return self._step_alone(*batch)

    def set_rate(self, rate: float) -> None:
        with self.strategy.scope():
            self.optimizer.learning_rate.assign(rate)

    def state(self) -> list[Any]:
        """Every variable that a step changes, replica by replica."""
        variables = {id(each): each for each in (*self.model.variables, *self.optimizer.variables)}
        return [own for each in variables.values() for own in components(self.strategy, each)]

    def decayed(self, gradients: list[Any], values: list[Any]) -> list[Any]:
        if not self._decay:
            return gradients
        decay = self._decay / self._replicas
        return [each + decay * value for each, value in zip(gradients, values, strict=True)]

    def _run(self, inputs: Any, targets: Any, communicate: bool) -> Any:
        losses = self.strategy.run(self._replica_step, args=(inputs, targets, communicate))
        local_losses = self.strategy.experimental_local_results(losses)
        return local_losses[0] if len(local_losses) == 1 else tf.add_n(local_losses) / len(local_losses)

    def _replica_step(self, inputs: Any, targets: Any, communicate: bool) -> Any:
        variables = self.model.trainable_variables
        values = [variable.value for variable in variables]
        with tf.GradientTape() as tape:
            loss = cross_entropy(self.model(inputs, training=True), targets)
            share = loss / self._replicas
        if self._across and communicate:
            tape = self._across.tape(tape)
        gradients = self.decayed(tape.gradient(share, values), values)
        self.optimizer.communicate = communicate
        self.optimizer.apply(gradients, variables)
        return loss


def cross_entropy(logits: Any, targets: Any) -> Any:
    """Mean over the batch, in fp32: logits (batch, classes), targets (batch,)."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, tf.cast(logits, tf.float32))
    return tf.reduce_mean(each)


def components(strategy: Any, variable: Any) -> tuple[Any, ...]:
    """The variables of TensorFlow, one for each replica of this process, behind one of Keras."""
    variables: tuple[Any, ...] = strategy.experimental_local_results(variable.value)
    return variables


def make_optimizer(optimizer: Optimizer) -> Any:
    """Keras's optimizer, whose sum over replicas can be left out: the flag is read when a step is traced."""
    options: dict[str, Any] = {"learning_rate": optimizer.learning_rate}
    match optimizer.name:
        case "sgd":
            options["momentum"] = optimizer.momentum
        case "lars":
            options |= {"momentum": optimizer.momentum, "decay": optimizer.weight_decay, "trust": optimizer.trust}
        case _:
            options["weight_decay"] = optimizer.weight_decay
    return _silenceable(_CLASSES[optimizer.name])(**options)


def _silenceable(kind: Any) -> Any:
    """A class of optimizer with ``communicate``; Keras has no public way to leave its all-reduce out."""

    def reduce(self: Any, pairs: Any) -> Any:
        return kind._all_reduce_sum_gradients(self, pairs) if self.communicate else list(pairs)

    return type(kind.__name__, (kind,), {"communicate": True, "_all_reduce_sum_gradients": reduce})


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
