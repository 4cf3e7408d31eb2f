"""Inception-v3, arXiv:1512.00567: the layers and names of the torch program's, without its auxiliary classifier."""

from collections.abc import Callable
from typing import Any

from scalecurve_worker.tensorflow.framework import keras
from scalecurve_worker.tensorflow.models.layers import Sides, conv_norm, head, max_pool, truncated_gaussian

Layer = tuple[int, Sides]
Branch = Callable[[Any, str], Any]
"""An image and the name of the branch -> an image."""
DEVIATION, EPSILON, DROPOUT = 0.1, 1e-3, 0.5
_ROW, _COLUMN = (1, 7), (7, 1)


def inception_v3(inputs: Any, classes: int) -> Any:
    """Inception-v3 -> logits (batch, classes)."""
    x = _conv(inputs, "to_17.0", 32, 3, stride=2)
    x = _conv(x, "to_17.1", 32, 3)
    x = _chain((64, 3))(x, "to_17.2")
    x = max_pool(x, "to_17.3", 3, 2)
    x = _chain((80, 1))(x, "to_17.4")
    x = _conv(x, "to_17.5", 192, 3)
    x = max_pool(x, "to_17.6", 3, 2)
    for index, pool in enumerate((32, 64, 64), start=7):
        x = _block_a(x, f"to_17.{index}", pool)
    x = _branches(x, "to_17.10", _shrink(384), _in_turn(_chain((64, 1), (96, 3)), _shrink(96)), _largest)
    for index, inner in enumerate((128, 160, 160, 192), start=11):
        x = _block_b(x, f"to_17.{index}", inner)
    x = _branches(
        x,
        "to_8.0",
        _in_turn(_chain((192, 1)), _shrink(320)),
        _in_turn(_chain((192, 1), (192, _ROW), (192, _COLUMN)), _shrink(192)),
        _largest,
    )
    for index in (1, 2):
        x = _block_c(x, f"to_8.{index}")
    return head(x, classes, truncated_gaussian(DEVIATION), DROPOUT)


def _block_a(x: Any, name: str, pool: int) -> Any:
    """35x35, figure 5 of the paper."""
    return _branches(
        x,
        name,
        _chain((64, 1)),
        _chain((48, 1), (64, 5)),
        _chain((64, 1), (96, 3), (96, 3)),
        _in_turn(_mean, _one(pool)),
    )


def _block_b(x: Any, name: str, inner: int) -> Any:
    """17x17, figure 6 of the paper with n = 7."""
    return _branches(
        x,
        name,
        _chain((192, 1)),
        _chain((inner, 1), (inner, _ROW), (192, _COLUMN)),
        _chain((inner, 1), (inner, _COLUMN), (inner, _ROW), (inner, _COLUMN), (192, _ROW)),
        _in_turn(_mean, _one(192)),
    )


def _block_c(x: Any, name: str) -> Any:
    """8x8, figure 7 of the paper."""

    def split(x: Any, name: str) -> Any:
        return _branches(x, name, _chain((384, (1, 3))), _chain((384, (3, 1))))

    return _branches(
        x,
        name,
        _chain((320, 1)),
        _in_turn(_chain((384, 1)), split),
        _in_turn(_chain((448, 1), (384, 3)), split),
        _in_turn(_mean, _one(192)),
    )


def _branches(x: Any, name: str, *branches: Branch) -> Any:
    """Joined along the channels."""
    ends = [branch(x, f"{name}.branches.{index}") for index, branch in enumerate(branches)]
    return keras.layers.Concatenate(name=f"{name}.joined")(ends)


def _in_turn(*parts: Branch) -> Branch:
    def through(x: Any, name: str) -> Any:
        for index, part in enumerate(parts):
            x = part(x, f"{name}.{index}")
        return x

    return through


def _chain(*layers: Layer) -> Branch:
    """Convolutions that keep height and width."""
    return _in_turn(*(_one(width, kernel) for width, kernel in layers))


def _one(width: int, kernel: Sides = 1) -> Branch:
    padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    return lambda x, name: _conv(x, name, width, kernel, padding=padding)


def _shrink(width: int) -> Branch:
    return lambda x, name: _conv(x, name, width, 3, stride=2)


def _largest(x: Any, name: str) -> Any:
    return max_pool(x, name, 3, 2)


def _mean(x: Any, name: str) -> Any:
    """3x3, with the zeros around the image in it, as in torch."""
    x = keras.layers.ZeroPadding2D(1, name=f"{name}.padding")(x)
    return keras.layers.AveragePooling2D(3, strides=1, name=name)(x)


def _conv(x: Any, name: str, width: int, kernel: Sides, *, stride: int = 1, padding: Sides = 0) -> Any:
    initial = truncated_gaussian(DEVIATION)
    return conv_norm(x, name, width, kernel, stride=stride, padding=padding, eps=EPSILON, kernel_initializer=initial)
