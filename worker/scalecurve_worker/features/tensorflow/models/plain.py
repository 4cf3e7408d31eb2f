"""Sequential networks: AlexNet, VGG and the multilayer perceptron."""

from functools import partial
from itertools import count
from typing import Any

from scalecurve_worker.features.tensorflow.framework import keras
from scalecurve_worker.features.tensorflow.models.layers import AdaptiveMean, convolution, gaussian, linear, max_pool

# Channels of the 3x3 convolutions, a max pool after each group: columns D and E of table 1, arXiv:1409.1556.
VGG_GROUPS = {
    16: ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)),
    19: ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4),
}
# Width, kernel, stride, padding, and whether a max pool of 3 by 2 follows: arXiv:1404.5997.
ALEXNET = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)
_BIAS_OF_ONE = (1, 3, 4)
DROPOUT = 0.5


def alexnet(inputs: Any, classes: int) -> Any:
    """Build AlexNet in its one-column form -> logits (batch, classes)."""
    x, names = inputs, (f"features.{index}" for index in count())
    for layer, (width, kernel, stride, padding, pool) in enumerate(ALEXNET):
        bias = "ones" if layer in _BIAS_OF_ONE else "zeros"
        more = {"kernel_initializer": gaussian(0.01), "bias_initializer": bias}
        x = convolution(x, next(names), width, kernel, stride=stride, padding=padding, **more)
        x = keras.layers.ReLU(name=next(names))(x)
        if pool:
            x = max_pool(x, next(names), 3, 2)
    x = keras.layers.Flatten(name="head.1")(AdaptiveMean(6, name="head.0")(x))
    x = keras.layers.Dropout(DROPOUT, name="head.2")(x)
    x = _dense_relu(x, "head.3", 4096, bias="ones")
    x = keras.layers.Dropout(DROPOUT, name="head.5")(x)
    x = _dense_relu(x, "head.6", 4096, bias="ones")
    return linear(x, "head.8", classes, gaussian(0.01))


def vgg(inputs: Any, depth: int, classes: int) -> Any:
    """Build VGG-16 or -19 without batch norm -> logits (batch, classes)."""
    x, names = inputs, (f"features.{index}" for index in count())
    for group in VGG_GROUPS[depth]:
        for width in group:
            x = convolution(x, next(names), width, 3, padding=1)
            x = keras.layers.ReLU(name=next(names))(x)
        x = max_pool(x, next(names), 2, 2)
    x = keras.layers.Flatten(name="head.1")(AdaptiveMean(7, name="head.0")(x))
    for index in (2, 5):
        x = _dense_relu(x, f"head.{index}", 4096)
        x = keras.layers.Dropout(DROPOUT, name=f"head.{index + 2}")(x)
    return linear(x, "head.8", classes, gaussian(0.01))


def mlp(inputs: Any, classes: int) -> Any:
    """Build a multilayer perceptron, two hidden layers of 512 over the flattened sample -> logits (batch, classes)."""
    fan_in = keras.initializers.VarianceScaling(2.0, mode="fan_in", distribution="untruncated_normal")
    x = keras.layers.Flatten(name="layers.0")(inputs)
    for index in (1, 3):
        x = linear(x, f"layers.{index}", 512, fan_in)
        x = keras.layers.ReLU(name=f"layers.{index + 1}")(x)
    return linear(x, "layers.5", classes, fan_in)


def _dense_relu(x: Any, name: str, width: int, bias: str = "zeros") -> Any:
    x = keras.layers.Dense(width, kernel_initializer=gaussian(0.01), bias_initializer=bias, name=name)(x)
    return keras.layers.ReLU(name=f"{name}.relu")(x)


vgg16, vgg19 = partial(vgg, depth=16), partial(vgg, depth=19)
