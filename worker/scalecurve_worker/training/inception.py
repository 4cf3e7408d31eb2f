"""Inception-v3 without a framework: C. Szegedy et al., "Rethinking the Inception architecture", arXiv:1512.00567.

The layers of the authors' released model (299x299 images), which differ a little from the paper's table 1. A list is
parts one after another, a tuple is branches over one input, joined along the channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sides = int | tuple[int, int]
"""Height and width where they differ."""
EPSILON, DEVIATION, DROPOUT = 1e-3, 0.1, 0.5
_ROW, _COLUMN = (1, 7), (7, 1)


@dataclass(frozen=True)
class ConvPart:
    """A convolution without bias, batch normalization, and a ReLU."""

    width: int
    kernel: Sides
    stride: int = 1
    padding: Sides = 0


Part = ConvPart | Literal["max", "mean"] | list["Part"] | tuple["Part", ...]
"""``max`` is 3x3 with stride 2; ``mean`` is 3x3, and keeps height and width with zeros around the image in it."""


def _chain(*layers: tuple[int, Sides]) -> Part:
    """Convolutions that keep height and width, as (width, kernel)."""
    paddings = [kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2) for _, kernel in layers]
    return [ConvPart(width, kernel, padding=padding) for (width, kernel), padding in zip(layers, paddings, strict=True)]


def _shrink(width: int) -> Part:
    return ConvPart(width, 3, stride=2)


def _block_a(pool: int) -> Part:
    """35x35, figure 5 of the paper; gives 224 + ``pool`` channels."""
    return (
        _chain((64, 1)),
        _chain((48, 1), (64, 5)),
        _chain((64, 1), (96, 3), (96, 3)),
        ["mean", ConvPart(pool, 1)],
    )


def _block_b(inner: int) -> Part:
    """17x17, figure 6 of the paper with n = 7; gives 768 channels."""
    return (
        _chain((192, 1)),
        _chain((inner, 1), (inner, _ROW), (192, _COLUMN)),
        _chain((inner, 1), (inner, _COLUMN), (inner, _ROW), (inner, _COLUMN), (192, _ROW)),
        ["mean", ConvPart(192, 1)],
    )


_SPLIT: Part = (_chain((384, (1, 3))), _chain((384, (3, 1))))
_BLOCK_C: Part = (
    _chain((320, 1)),
    [_chain((384, 1)), _SPLIT],
    [_chain((448, 1), (384, 3)), _SPLIT],
    ["mean", ConvPart(192, 1)],
)
"""8x8, figure 7 of the paper; gives 2048 channels."""
TO_17: Part = [
    *(_shrink(32), ConvPart(32, 3), _chain((64, 3)), "max"),
    *(_chain((80, 1)), ConvPart(192, 3), "max"),
    *(_block_a(32), _block_a(64), _block_a(64)),
    (_shrink(384), [_chain((64, 1), (96, 3)), _shrink(96)], "max"),
    *(_block_b(128), _block_b(160), _block_b(160), _block_b(192)),
]
"""The image to 17x17, where the auxiliary classifier begins; gives 768 channels."""
TO_8: Part = [
    (
        [_chain((192, 1)), _shrink(320)],
        [_chain((192, 1), (192, _ROW), (192, _COLUMN)), _shrink(192)],
        "max",
    ),
    *(_BLOCK_C, _BLOCK_C),
]
"""17x17 to 8x8; gives 2048 channels."""
