"""Receptive fields: how much of the input a value of a layer depends on. r += (k - 1) * j; j *= s per axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import AnyLayer, Conv, Dense, NetworkError, Pair, Pool, Shape, Shortcut
from scalecurve_models.networks.window import reach


@dataclass(frozen=True)
class Field:
    """Rows and columns of the input that a value depends on, and the input cells between neighboring values."""

    size: tuple[int, int] = (1, 1)
    jump: tuple[int, int] = (1, 1)

    def through(self, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> Field:
        size = tuple(r + (k - 1) * j for r, k, j in zip(self.size, kernel, self.jump, strict=True))
        jump = tuple(j * s for j, s in zip(self.jump, stride, strict=True))
        return Field((size[0], size[1]), (jump[0], jump[1]))

    def __str__(self) -> str:
        return f"{self.size[0]}x{self.size[1]}"


def receptive_fields(network: Network) -> Mapping[str, Field]:
    """The field of every layer; where branches meet, the largest. Padding counts as input."""
    fields: dict[str, Field] = {}
    for layer in network.layers:
        parents = [fields[parent] for parent in layer.parents] or [Field()]
        (rows, columns), (down, right) = (
            [max(getattr(field, name)[axis] for field in parents) for axis in (0, 1)] for name in ("size", "jump")
        )
        above = Field((rows, columns), (down, right))
        fields[layer.name] = _layer_field(layer, above, network.inputs_of(layer))
    return fields


def stack_field(kernels: Sequence[Pair], strides: Sequence[Pair] | None = None) -> Field:
    """The field of a sequence of convolutions: N of FxF with stride 1 cover N(F-1)+1.

    Raises NetworkError for no kernels, or different numbers of kernels and strides.
    """
    strides = [(1, 1)] * len(kernels) if strides is None else strides
    if not kernels or len(strides) != len(kernels):
        raise NetworkError(f"expected one stride per kernel, got {len(kernels)} kernels and {len(strides)} strides")
    field = Field()
    for kernel, stride in zip(kernels, strides, strict=True):
        if min(*kernel, *stride) < 1:
            raise NetworkError(f"kernels and strides must be at least 1, got kernel {kernel}, stride {stride}")
        field = field.through(kernel, stride)
    return field


def _layer_field(layer: AnyLayer, above: Field, inputs: tuple[Shape, ...]) -> Field:
    match layer:
        case Conv():
            kernel = (reach(layer.kernel[0], layer.dilation[0]), reach(layer.kernel[1], layer.dilation[1]))
            return above.through(kernel, layer.stride)
        case Pool():
            return above.through(*layer.window(inputs[0]))
        case Shortcut():
            return above.through((1, 1), layer.stride)
        case Dense() if len(inputs[0]) == 3:
            return above.through((inputs[0][0], inputs[0][1]))
        case _:
            return above
