"""What Paleo charges for a layer: floating-point operations and values moved, in GEMM mode, for any batch.

Rules of TalwalkarLab/paleo, paleo/layers/conv.py and paleo/profilers/flops_profiler.py, in two revisions: ``head``
(984bbf5, 2018) and ``release`` (b12c04b, 2016, behind the numbers of the paper and the demo). ``head`` counts padding
in the values that a convolution reads and, for a strided one, moving each value of the dilated gradient.

Both charge the gradient of a strided convolution's input as a dense convolution over the dilated gradient: stride
squared times the actual work. ``corrected`` charges the actual work. Grouped and dilated convolutions, and windows that
leave two or more cells, are charged by extending the same rules; the authors' code does not support them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import AnyLayer, Conv, Deconv, Dense, Dropout, Input, Pool, Shape
from scalecurve_models.networks.window import Padding, padding_of, reach

Revision = Literal["head", "release"]


class PaleoError(ValueError):
    """A prediction that cannot be made; the message is one line."""


@dataclass(frozen=True)
class Variant:
    """How Paleo computes; ``pipeline`` overlaps compute and memory traffic in a layer. Raises PaleoError."""

    revision: Revision = "head"
    corrected: bool = False
    pipeline: bool = False

    def __post_init__(self) -> None:
        if self.revision not in get_args(Revision):
            raise PaleoError(f"revision {self.revision!r}: expected one of {', '.join(get_args(Revision))}")


HEAD = Variant()
MOST_PPP = 1_000_000


def check_ppp(name: str, value: float) -> None:
    """Raise PaleoError for an invalid platform percent of peak; values above 1 are valid."""
    if not 0 < value <= MOST_PPP:
        raise PaleoError(f"{name} {value!r}: expected a positive number up to {MOST_PPP:,}")


@dataclass(frozen=True)
class DataMove:
    """Values read or written at once, as ``each * batch + once``. Each move has its own minimum time."""

    each: float = 0.0
    once: float = 0.0


@dataclass(frozen=True)
class Charge:
    """One pass over a layer: FLOPs per sample of each product, and the values moved."""

    flops: tuple[float, ...] = ()
    moved: tuple[DataMove, ...] = ()

    def __add__(self, other: Charge) -> Charge:
        return Charge(self.flops + other.flops, self.moved + other.moved)


@dataclass(frozen=True)
class LayerTerms:
    """A layer's forward and backward charge, and the parameters that Paleo counts (every bias, no normalisation)."""

    name: str
    forward: Charge
    backward: Charge
    parameters: int


@dataclass(frozen=True)
class _Convolution:
    """A convolution as two axes: input, kernel's reach, stride, output, padding before."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    reach: tuple[int, int]
    stride: tuple[int, int]
    out: tuple[int, int]
    before: tuple[int, int]
    channels: int
    filters: int
    groups: int
    name: str

    @property
    def weights(self) -> int:
        return prod(self.kernel) * self.channels * self.filters // self.groups

    @property
    def product(self) -> float:
        return 2.0 * self.weights * prod(self.out)


def layer_terms(network: Network, variant: Variant = HEAD) -> tuple[LayerTerms, ...]:
    """Charges of every layer used for inference (no auxiliary classifiers).

    Raises PaleoError where the release's own check fails: a strided convolution with ``same`` padding.
    """
    return tuple(_terms(network, layer, variant) for layer in network.main_layers)


def _terms(network: Network, layer: AnyLayer, variant: Variant) -> LayerTerms:
    inputs, output = network.inputs_of(layer), network.shapes[layer.name]
    match layer:
        case Conv():
            conv = _convolution_of_conv(layer, inputs[0], output)
        case Dense() if layer.as_convolution:
            conv = _convolution_of_dense(layer, inputs[0])
        case Deconv():
            conv = _convolution_of_deconv(layer, inputs[0])
            forward = _data_gradient(conv, variant)
            backward = _forward(conv, variant) + _filter_gradient(conv, variant)
            return LayerTerms(layer.name, forward, backward, conv.weights + layer.filters)
        case Dense():
            read, weights = prod(inputs[0]), prod(inputs[0]) * layer.features
            forward = Charge((2.0 * weights,), (DataMove(read), DataMove(once=weights), DataMove(layer.features)))
            return LayerTerms(layer.name, forward, forward + forward, weights + layer.features)
        case Pool():
            moved = (DataMove(prod(inputs[0])), DataMove(prod(output)))
            charge = Charge((2.0 * prod(layer.window(inputs[0])[0]) * prod(output),), moved)
            return LayerTerms(layer.name, charge, charge, 0)
        case Dropout():
            move = DataMove(prod(inputs[0]))
            charge = Charge((move.each,), (move, move))
            return LayerTerms(layer.name, charge, charge, 0)
        case _:
            return LayerTerms(layer.name, Charge(), Charge(), 0)
    data = _data_gradient(conv, variant)
    first = any(isinstance(parent, Input) for parent in network.parents_of(layer))
    backward = (Charge() if first else data) + _filter_gradient(conv, variant)
    return LayerTerms(layer.name, _forward(conv, variant), backward, conv.weights + conv.filters)


def _convolution_of_conv(layer: Conv, shape: Shape, output: Shape) -> _Convolution:
    spans = (reach(layer.kernel[0], layer.dilation[0]), reach(layer.kernel[1], layer.dilation[1]))
    return _Convolution(
        (shape[0], shape[1]), layer.kernel, spans, layer.stride, (output[0], output[1]),
        _padding_before(layer.padding, shape, spans, layer.stride), shape[2], layer.filters, layer.groups, layer.name,
    )  # fmt: skip


def _convolution_of_dense(layer: Dense, shape: Shape) -> _Convolution:
    size, channels = ((shape[0], shape[1]), shape[2]) if len(shape) == 3 else ((1, 1), prod(shape))
    return _Convolution(size, size, size, (1, 1), (1, 1), (0, 0), channels, layer.features, 1, layer.name)


def _convolution_of_deconv(layer: Deconv, shape: Shape) -> _Convolution:
    before = _padding_before(layer.padding, layer.size, layer.kernel, layer.stride)
    return _Convolution(
        layer.size, layer.kernel, layer.kernel, layer.stride, (shape[0], shape[1]), before,
        layer.filters, shape[2], 1, layer.name,
    )  # fmt: skip


def _padding_before(padding: Padding, shape: Shape, spans: tuple[int, int], stride: tuple[int, int]) -> tuple[int, int]:
    rows, columns = (padding_of(padding, axis, shape[axis], spans[axis], stride[axis]) for axis in (0, 1))
    return rows, columns


def _forward(conv: _Convolution, variant: Variant) -> Charge:
    before = [max(0, pad) if variant.corrected else pad for pad in conv.before]
    padded = [size + 2 * pad for size, pad in zip(conv.size, before, strict=True)]
    read = prod(padded if variant.revision == "head" else conv.size) * conv.channels
    written = prod(conv.out) * conv.filters
    return Charge((conv.product,), (DataMove(read), DataMove(once=conv.weights), DataMove(written)))


def _data_gradient(conv: _Convolution, variant: Variant) -> Charge:
    """A convolution with stride 1 of the dilated gradient of the output; gives the gradient of the input."""
    dilated = _gradient_extents(conv, variant)
    gradient = prod(conv.out) * conv.filters
    written = DataMove(prod(conv.size) * conv.channels)
    if variant.corrected:
        return Charge((conv.product,), (DataMove(gradient), DataMove(once=conv.weights), written))
    flops = 2.0 * conv.weights * prod(conv.size)
    if variant.revision == "head":
        if prod(dilated) > prod(conv.out):
            flops += 2.0 * gradient
        dilated = [size + span - 1 for size, span in zip(conv.size, conv.reach, strict=True)]
    return Charge((flops,), (DataMove(prod(dilated) * conv.filters), DataMove(once=conv.weights), written))


def _filter_gradient(conv: _Convolution, variant: Variant) -> Charge:
    """A convolution of the input, samples as channels, with the gradient of the output as a filter full of holes."""
    padded: Iterable[int] = conv.size
    if variant.revision == "head":
        padded = (e + span - 1 for e, span in zip(_gradient_extents(conv, variant), conv.reach, strict=True))
    gradient = prod(conv.out) * conv.filters
    return Charge(
        (conv.product,), (DataMove(prod(padded) * conv.channels), DataMove(gradient), DataMove(once=conv.weights))
    )


def _gradient_extents(conv: _Convolution, variant: Variant) -> list[int]:
    """Height and width of the output's gradient with stride - 1 holes between its values, and the odd rest."""
    extents = []
    for size, span, stride, out, pad in zip(conv.size, conv.reach, conv.stride, conv.out, conv.before, strict=True):
        extent = (out - 1) * stride + 1
        before = span - 1 - pad
        after = size + span - 1 - extent - before
        if variant.revision == "head":
            extents.append(extent + abs(before - after))
            continue
        extent += before == after - 1
        if extent + 2 * before - span + 1 != size:
            raise PaleoError(
                f"layer {conv.name}: revision release cannot differentiate kernel {span}, stride {stride} over "
                f"{size}; use revision head"
            )
        extents.append(extent)
    return extents
