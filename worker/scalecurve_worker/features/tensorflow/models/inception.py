"""Inception-v3 of ``training.inception`` as Keras layers, without its auxiliary classifier."""

from typing import Any

from scalecurve_worker.features.tensorflow.framework import keras
from scalecurve_worker.features.tensorflow.models.layers import conv_norm, gaussian_initializer, head, max_pool
from scalecurve_worker.training.inception import DEVIATION, DROPOUT, EPSILON, TO_8, TO_17, ConvPart, Part


def inception_v3(inputs: Any, classes: int) -> Any:
    """Build Inception-v3 -> logits (batch, classes)."""
    x = _apply_part(inputs, "to_17", TO_17)
    x = _apply_part(x, "to_8", TO_8)
    return head(x, classes, gaussian_initializer(DEVIATION), DROPOUT)


def _apply_part(x: Any, name: str, part: Part) -> Any:
    """The part over ``x``, its layers named as torch's modules."""
    if isinstance(part, ConvPart):
        options = {"eps": EPSILON, "kernel_initializer": gaussian_initializer(DEVIATION)}
        return conv_norm(x, name, part.width, part.kernel, stride=part.stride, padding=part.padding, **options)
    if part == "max":
        return max_pool(x, name, 3, 2)
    if part == "mean":
        x = keras.layers.ZeroPadding2D(1, name=f"{name}.padding")(x)
        return keras.layers.AveragePooling2D(3, strides=1, name=name)(x)
    if isinstance(part, tuple):
        ends = [_apply_part(x, f"{name}.branches.{index}", branch) for index, branch in enumerate(part)]
        return keras.layers.Concatenate(name=f"{name}.joined")(ends)
    for index, each in enumerate(part):
        x = _apply_part(x, f"{name}.{index}", each)
    return x
