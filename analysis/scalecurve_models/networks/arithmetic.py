"""Counts as written-out arithmetic: ``(3*3*64)*64 = 36,864``."""

from math import prod

from scalecurve_models.networks.counting import LayerCount
from scalecurve_models.networks.layer import Conv, Deconv, Dense, Input, Pool, Shape


def weights(entry: LayerCount) -> str:
    """Weights of a layer without biases; empty if it has none."""
    factors = _weights(entry)
    return f"{factors} = {entry.work.weights:,}" if factors else ""


def macs(entry: LayerCount) -> str:
    """Multiply-adds for one sample: the weights times the positions where they are used."""
    factors = _weights(entry)
    if not factors:
        return ""
    where = entry.output if isinstance(entry.layer, Conv) else entry.inputs[0]
    places = "" if isinstance(entry.layer, Dense) else f"*({where[0]}*{where[1]})"
    return f"{factors}{places} = {entry.work.macs:,}"


def activations(entry: LayerCount) -> str:
    """Values kept by a layer for one sample."""
    if not entry.activations:
        return ""
    return f"{_product(entry.output)} = {prod(entry.output):,}" if len(entry.output) > 1 else f"{entry.output[0]:,}"


def describe(entry: LayerCount) -> str:
    """The layer's type and parameters: ``conv 3x3 /2``."""
    layer = entry.layer
    match layer:
        case Input():
            return "input"
        case Conv() | Deconv():
            stride = "" if layer.stride == (1, 1) else f" /{_square(layer.stride)}"
            groups = f" groups {layer.groups}" if isinstance(layer, Conv) and layer.groups > 1 else ""
            return f"{layer.kind} {layer.kernel[0]}x{layer.kernel[1]}{stride}{groups}"
        case Pool():
            (height, width), steps = layer.window(entry.inputs[0])
            return f"{layer.kind} {height}x{width} /{_square(steps)}"
        case _:
            return layer.kind


def _weights(entry: LayerCount) -> str:
    match entry.layer:
        case Conv() as conv:
            return f"({conv.kernel[0]}*{conv.kernel[1]}*{entry.inputs[0][-1] // conv.groups})*{conv.filters}"
        case Deconv() as deconv:
            return f"({deconv.kernel[0]}*{deconv.kernel[1]}*{entry.inputs[0][-1]})*{deconv.filters}"
        case Dense() as dense:
            shape = entry.inputs[0]
            return f"({_product(shape)})*{dense.features}" if len(shape) > 1 else f"{shape[0]}*{dense.features}"
        case _:
            return ""


def _product(shape: Shape) -> str:
    return "*".join(str(size) for size in shape)


def _square(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"
