"""Keras's optimizers with the constants and the weight decay of torch's, and those that Keras has otherwise or not."""

from typing import Any

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_worker.features.tensorflow.framework import keras, tf

COUPLED = ("sgd", "adam", "adadelta", "adagrad", "rmsprop")
"""Rules whose weight decay is part of the gradient, as in torch; Keras's own would be taken off the parameter."""


class SGD(keras.optimizers.SGD):  # type: ignore[misc]  # Keras has no types
    """Momentum as torch has it: v = m v + g, w = w - lr v.

    Keras's v holds the learning rate, so that a change of it would only come into effect with the next gradients;
    Horovod's callbacks for Keras correct the momentum for that (P. Goyal et al., arXiv:1706.02677, section 3, remark
    3). Here there is nothing to correct.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate, gradient = tf.cast(learning_rate, variable.dtype), tf.cast(gradient, variable.dtype)
        if self.momentum:
            velocity = self.momentums[self._get_variable_index(variable)]
            self.assign(velocity, velocity * self.momentum + gradient)
            gradient = gradient + velocity * self.momentum if self.nesterov else tf.convert_to_tensor(velocity)
        self.assign_sub(variable, rate * gradient)


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


class Lamb(keras.optimizers.Adam):  # type: ignore[misc]  # Keras has no types
    """Y. You et al., arXiv:1904.00962, algorithm 2, with Adam's bias correction; Keras's decays outside the ratio.

    Vectors are neither scaled nor decayed.
    """

    def __init__(self, learning_rate: float, decay: float) -> None:
        super().__init__(learning_rate=learning_rate)
        self._layer_decay = decay

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index, weight = self._get_variable_index(variable), tf.convert_to_tensor(variable)
        gradient, step = tf.cast(gradient, weight.dtype), tf.cast(self.iterations + 1, weight.dtype)
        mean, square = self._momentums[index], self._velocities[index]
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (gradient * gradient - square) * (1 - self.beta_2))
        corrected = tf.sqrt(square / (1 - self.beta_2**step)) + 1e-6
        update = mean / (1 - self.beta_1**step) / corrected
        if len(variable.shape) > 1:
            update += self._layer_decay * weight
            norm, length = tf.norm(weight), tf.norm(update)
            update *= tf.where((norm > 0) & (length > 0), norm / length, tf.ones_like(norm))
        self.assign_sub(variable, tf.cast(learning_rate, weight.dtype) * update)


_CLASSES = {
    "sgd": SGD,
    "adam": keras.optimizers.Adam,
    "adamw": keras.optimizers.AdamW,
    "adadelta": keras.optimizers.Adadelta,
    "adagrad": keras.optimizers.Adagrad,
    "rmsprop": keras.optimizers.RMSprop,
    "lars": Lars,
    "lamb": Lamb,
}


def make_optimizer(optimizer: Optimizer) -> Any:
    """Make Keras's optimizer, whose sum over replicas can be skipped: the flag is read when a step is traced.

    Of adagrad and rmsprop torch adds its epsilon to the root, and Keras to what is under it: the square is the same
    where it matters.
    """
    kind = _CLASSES[optimizer.name]
    match optimizer.name:
        case "sgd":
            options = {"momentum": optimizer.momentum, "nesterov": optimizer.nesterov}
        case "adam":
            options = {"epsilon": 1e-8}
        case "adamw":
            options = {"epsilon": 1e-8, "weight_decay": optimizer.weight_decay}
        case "adadelta":
            options = {"rho": optimizer.rho, "epsilon": 1e-6}
        case "adagrad":
            options = {"initial_accumulator_value": 0.0, "epsilon": 1e-10**2}
        case "rmsprop":
            options = {"rho": optimizer.rho, "epsilon": 1e-8**2}
        case "lars":
            options = {"momentum": optimizer.momentum, "decay": optimizer.weight_decay, "trust": optimizer.trust}
        case "lamb":
            options = {"decay": optimizer.weight_decay}

    # Keras has no public way to leave its all-reduce out.
    def reduce(self: Any, pairs: Any) -> Any:
        return kind._all_reduce_sum_gradients(self, pairs) if self.communicate else list(pairs)

    made = type(kind.__name__, (kind,), {"communicate": True, "_all_reduce_sum_gradients": reduce})
    return made(learning_rate=optimizer.learning_rate, **options)


def build_optimizer(optimizer: Any, rule: Optimizer, variables: list[Any]) -> None:
    """Make the optimizer's state for Keras variables, and leave decay of vectors out where the rule does."""
    if rule.name == "adamw" and not rule.decay_norm:
        optimizer.exclude_from_weight_decay(var_list=[each for each in variables if len(each.shape) <= 1])
    optimizer.build(variables)


def add_weight_decay(rule: Optimizer, gradients: list[Any], values: list[Any], share: float) -> list[Any]:
    """Add to gradients the weight decay that is part of them, of which each replica adds its ``share``."""
    if not rule.weight_decay or rule.name not in COUPLED:
        return gradients
    decay = rule.weight_decay * share
    return [
        gradient + decay * value if rule.decay_norm or len(value.shape) > 1 else gradient
        for gradient, value in zip(gradients, values, strict=True)
    ]
