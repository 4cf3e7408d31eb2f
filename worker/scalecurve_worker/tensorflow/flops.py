"""FLOPs of one training step from the layers' shapes, with the conventions of the torch program.

One multiply-add is two FLOPs. Convolutions and matrix products are counted, forward and backward: the backward pass
takes twice the forward one, once for the weights and once for the input, which the first layer does not need.
"""

import math
from typing import Any

from scalecurve_worker.tensorflow.framework import keras


def step_flops(model: Any) -> int:
    """FLOPs of a training step for one item."""
    each = [forward for layer in model.layers if (forward := _forward(layer))]
    return 3 * sum(each) - each[0]


def _forward(layer: Any) -> int:
    if isinstance(layer, keras.layers.Conv2D):
        return 2 * _size(layer.kernel.shape) * _size(layer.output.shape[1:3])
    if isinstance(layer, keras.layers.Dense):
        return 2 * _size(layer.kernel.shape)
    return 0


def _size(shape: Any) -> int:
    return math.prod(int(each) for each in shape)
