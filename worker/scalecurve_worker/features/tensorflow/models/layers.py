"""Layers that the architectures share. Images are (batch, height, width, channels), as TensorFlow's kernels want them.

Layers bear the names of torch's modules, so that parameters can be carried over by name.
"""

from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.features.tensorflow.framework import keras, tf

EPSILON = 1e-5
# torch's momentum of 0.1, in TensorFlow's sense.
RUNNING = 0.9

Sides = int | tuple[int, int]
"""Height and width where they differ."""


def he_normal() -> Any:
    """Return the initializer N(0, 2/fan_out), K. He et al., arXiv:1502.01852."""
    return keras.initializers.VarianceScaling(2.0, mode="fan_out", distribution="untruncated_normal")


def gaussian(deviation: float) -> Any:
    """Return the initializer N(0, deviation²)."""
    return keras.initializers.RandomNormal(stddev=deviation)


class BatchNormLayer(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Batch normalisation over the replica's own batch, in one fused kernel.

    Keras's own layer is made of separate operations, and its running statistics cannot be updated under
    ``MirroredStrategy`` without an aggregation, which would be a small all-reduce for every layer and step. Here they
    are each replica's own until somebody reads them, and then their mean: as in TensorFlow before Keras 3.
    """

    def __init__(self, eps: float = EPSILON, **more: Any) -> None:
        super().__init__(**more)
        self.eps = eps

    def build(self, shape: Any) -> None:
        channels = (shape[-1],)
        self.gamma = self.add_weight(shape=channels, initializer="ones", name="gamma", dtype="float32", autocast=False)
        self.beta = self.add_weight(shape=channels, initializer="zeros", name="beta", dtype="float32", autocast=False)
        statistics: dict[str, Any] = {"shape": channels, "dtype": "float32", "trainable": False, "autocast": False}
        statistics |= {"aggregation": "mean", "synchronization": "on_read"}
        self.moving_mean = keras.Variable(keras.initializers.Zeros(), name="moving_mean", **statistics)
        self.moving_variance = keras.Variable(keras.initializers.Ones(), name="moving_variance", **statistics)

    def call(self, x: Any, training: bool = False) -> Any:
        fused = tf.compat.v1.nn.fused_batch_norm
        # As in Keras's own: a frozen layer keeps its statistics.
        if not (training and self.trainable):
            mean, variance = self.moving_mean.value, self.moving_variance.value
            y, _, _ = fused(x, self.gamma.value, self.beta.value, mean, variance, self.eps, is_training=False)
            return y
        y, mean, variance = fused(x, self.gamma.value, self.beta.value, epsilon=self.eps, is_training=True)
        for running, batch_value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            running.assign(running.value * RUNNING + batch_value * (1 - RUNNING))
        return y


class PaddedShortcutLayer(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Option A of the paper: every second row and column, and zeros for the channels that are new."""

    def __init__(self, new_channels: int, **more: Any) -> None:
        super().__init__(**more)
        self.new_channels = new_channels

    def call(self, x: Any) -> Any:
        return tf.pad(x[:, ::2, ::2, :], [[0, 0], [0, 0], [0, 0], [0, self.new_channels]])


class AdaptiveMean(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Mean over parts of the image, so many in each direction, whatever its size: torch's AdaptiveAvgPool2d."""

    def __init__(self, side: int, **more: Any) -> None:
        super().__init__(**more)
        self.side = side

    def call(self, x: Any) -> Any:
        height, width = int(x.shape[1]), int(x.shape[2])
        if (height, width) == (self.side, self.side):
            return x
        rows = tf.constant(parts(height, self.side), x.dtype)
        columns = tf.constant(parts(width, self.side), x.dtype)
        return tf.einsum("bhwc,ih,jw->bijc", x, rows, columns)


def parts(size: int, count: int) -> NDArray[np.float32]:
    """Return weights (count, size): row i averages elements floor(i·size/count) up to ceil((i+1)·size/count)."""
    weights = np.zeros((count, size), np.float32)
    for part in range(count):
        begin, end = floor(part * size / count), ceil((part + 1) * size / count)
        weights[part, begin:end] = 1 / (end - begin)
    return weights


def gaussian_initializer(deviation: float) -> Any:
    """Return the initializer N(0, deviation²), cut at two deviations."""
    return keras.initializers.TruncatedNormal(stddev=deviation)


def convolution(
    x: Any, name: str, width: int, kernel: Sides, *, stride: int = 1, padding: Sides = 0, **more: Any
) -> Any:
    """Apply a convolution, padded alike on every side: TensorFlow's own "same" pads unevenly when it strides."""
    sides, around = (tuple(value) if isinstance(value, tuple) else (value, value) for value in (kernel, padding))
    same = stride == 1 and around == tuple(side // 2 for side in sides)
    if any(around) and not same:
        x = keras.layers.ZeroPadding2D(around, name=f"{name}.padding")(x)
    options = {"kernel_initializer": he_normal(), **more}
    return keras.layers.Conv2D(
        width, kernel, strides=stride, padding="same" if same else "valid", name=name, **options
    )(x)


def conv_norm(
    x: Any,
    name: str,
    width: int,
    kernel: Sides,
    *,
    stride: int = 1,
    padding: Sides = 0,
    relu: bool = True,
    eps: float = EPSILON,
    **more: Any,
) -> Any:
    """Apply a convolution without bias, batch normalization, and a ReLU unless ``relu`` is false."""
    x = convolution(x, f"{name}.0", width, kernel, stride=stride, padding=padding, use_bias=False, **more)
    x = BatchNormLayer(eps, name=f"{name}.1")(x)
    return keras.layers.ReLU(name=f"{name}.2")(x) if relu else x


def max_pool(x: Any, name: str, kernel: int, stride: int, padding: int = 0) -> Any:
    """Take the largest of each part. Padding is zeros: the same as none after a ReLU."""
    if padding:
        x = keras.layers.ZeroPadding2D(padding, name=f"{name}.padding")(x)
    return keras.layers.MaxPooling2D(kernel, strides=stride, name=name)(x)


def linear(x: Any, name: str, width: int, initial: Any) -> Any:
    """Apply a linear layer; its bias is zero at first."""
    return keras.layers.Dense(width, kernel_initializer=initial, name=name)(x)


def head(x: Any, classes: int, initial: Any, dropout: float = 0.0) -> Any:
    """Apply the mean over the image, dropout if any, and the linear layer that gives the logits, in fp32."""
    x = keras.layers.GlobalAveragePooling2D(name="head.0")(x)
    if dropout:
        x = keras.layers.Dropout(dropout, name="head.2")(x)
    return linear(x, "head.3" if dropout else "head.2", classes, initial)
