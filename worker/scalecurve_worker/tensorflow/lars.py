"""Layer-wise adaptive rate scaling, which Keras does not have: the same rule as the torch program's."""

from __future__ import annotations

from typing import Any

from scalecurve_worker.tensorflow.framework import keras, tf


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
