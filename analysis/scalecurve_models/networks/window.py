"""Sliding windows: output extents and paddings of convolutions and pools along one axis."""

from typing import Literal

Padding = Literal["valid", "same"] | tuple[int, int]
"""``valid`` none, ``same`` as TensorFlow pads, or (rows, columns) added at each side."""


def reach(kernel: int, dilation: int) -> int:
    """Cells from the first to the last one read by a dilated kernel."""
    return (kernel - 1) * dilation + 1


def padding_of(padding: Padding, axis: int, size: int, kernel: int, stride: int) -> int:
    """Cells added before the first one along ``axis``; for ``same`` the smaller half, as in TensorFlow.

    Negative for a ``same`` window smaller than its stride: cells at the edge are never read.
    """
    if padding == "valid":
        return 0
    if padding == "same":
        return ((-(-size // stride) - 1) * stride + kernel - size) // 2
    return padding[axis]


def extent(padding: Padding, axis: int, size: int, kernel: int, stride: int, ceil: bool = False) -> int:
    """Number of windows along one axis: rounded down, or up for ``ceil`` (without windows entirely in the padding).

    ``kernel`` is the reach of the window. Zero or less if the window does not fit.
    """
    if padding == "same":
        return -(-size // stride)
    pad = padding_of(padding, axis, size, kernel, stride)
    span = size + 2 * pad - kernel
    if span < 0:
        return 0
    if not ceil:
        return span // stride + 1
    windows = -(-span // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pad else windows


def describe_extent(padding: Padding, axis: int, size: int, kernel: int, stride: int, ceil: bool = False) -> str:
    """The number of windows along one axis as written-out arithmetic: ``floor((227 + 0 + 0 - 11) / 4) + 1 = 55``."""
    windows = extent(padding, axis, size, kernel, stride, ceil)
    if padding == "same":
        return f"ceil({size} / {stride}) = {windows}"
    pad = padding_of(padding, axis, size, kernel, stride)
    return f"{'ceil' if ceil else 'floor'}(({size} + 2*{pad} - {kernel}) / {stride}) + 1 = {windows}"


def adaptive_window(size: int, windows: int) -> tuple[int, int]:
    """Kernel and stride of a pool with a fixed number of windows; the widest window if they differ."""
    stride = max(1, size // windows)
    return size - (windows - 1) * stride if size >= windows else 1, stride
