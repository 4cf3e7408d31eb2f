"""ResNet: He et al. 2016, arXiv:1512.03385. For large images in version 1.5, for CIFAR by the paper's section 4.2."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from scalecurve_worker.features.tensorflow.framework import keras
from scalecurve_worker.features.tensorflow.models.layers import PaddedShortcutLayer, conv_norm, gaussian, head, max_pool

WIDTHS = (64, 128, 256, 512)
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
CIFAR_WIDTHS = (16, 32, 64)

Block = Callable[[Any, str, int, int], Any]


def basic_block(x: Any, name: str, width: int, stride: int) -> Any:
    """Apply two 3x3 convolutions, giving ``width`` channels."""
    y = conv_norm(x, f"{name}.body.0", width, 3, stride=stride, padding=1)
    y = conv_norm(y, f"{name}.body.1", width, 3, padding=1, relu=False)
    return _join(x, y, name, stride)


def bottleneck(x: Any, name: str, width: int, stride: int) -> Any:
    """Apply 1x1, 3x3 (with the stride) and 1x1 convolutions, giving four times ``width`` channels."""
    y = conv_norm(x, f"{name}.body.0", width, 1)
    y = conv_norm(y, f"{name}.body.1", width, 3, stride=stride, padding=1)
    y = conv_norm(y, f"{name}.body.2", 4 * width, 1, relu=False)
    return _join(x, y, name, stride)


def _join(x: Any, y: Any, name: str, stride: int) -> Any:
    """relu(y + shortcut(x)): identity where shapes agree, else a projection (option B)."""
    if stride != 1 or x.shape[-1] != y.shape[-1]:
        x = conv_norm(x, f"{name}.shortcut", int(y.shape[-1]), 1, stride=stride, relu=False)
    return _sum(x, y, name)


def _sum(x: Any, y: Any, name: str) -> Any:
    return keras.layers.ReLU(name=f"{name}.relu")(keras.layers.Add(name=f"{name}.add")([y, x]))


def resnet(inputs: Any, depth: int, classes: int) -> Any:
    """Build ResNet-18, -34, -50, -101 or -152 -> logits (batch, classes)."""
    block: Block = bottleneck if depth >= 50 else basic_block
    x = conv_norm(inputs, "stem.0", 64, 7, stride=2, padding=3)
    x = max_pool(x, "stem.1", 3, 2, padding=1)
    widths = [width for width, repeats in zip(WIDTHS, BLOCKS[depth], strict=True) for _ in range(repeats)]
    for index, (before, width) in enumerate(pairwise([WIDTHS[0], *widths])):
        x = block(x, f"stages.{index}", width, 1 if width == before else 2)
    return head(x, classes, gaussian(0.01))


def cifar_resnet(inputs: Any, depth: int, classes: int) -> Any:
    """Build ResNet-20, -32, -44, -56 or -110, with parameter-free shortcuts (option A) -> logits (batch, classes)."""
    x = conv_norm(inputs, "stem", CIFAR_WIDTHS[0], 3, padding=1)
    widths = [width for width in CIFAR_WIDTHS for _ in range((depth - 2) // 6)]
    for index, width in enumerate(widths):
        x = _cifar_block(x, f"stages.{index}", width)
    return head(x, classes, keras.initializers.VarianceScaling(1.0, mode="fan_in", distribution="untruncated_normal"))


def _cifar_block(x: Any, name: str, width: int) -> Any:
    grows = int(x.shape[-1]) != width
    y = conv_norm(x, f"{name}.body.0", width, 3, stride=2 if grows else 1, padding=1)
    y = conv_norm(y, f"{name}.body.1", width, 3, padding=1, relu=False)
    if grows:
        x = PaddedShortcutLayer(width - int(x.shape[-1]), name=f"{name}.shortcut")(x)
    return _sum(x, y, name)


resnet18, resnet34, resnet50, resnet101, resnet152 = (partial(resnet, depth=depth) for depth in BLOCKS)
resnet20_cifar, resnet32_cifar, resnet44_cifar, resnet56_cifar, resnet110_cifar = (
    partial(cifar_resnet, depth=depth) for depth in (20, 32, 44, 56, 110)
)
