"""Counts of each layer for one sample: weights, biases, multiply-adds, and minor operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import (
    Activation,
    Add,
    AnyLayer,
    Concat,
    Conv,
    Deconv,
    Dense,
    Input,
    LocalResponseNorm,
    NetworkError,
    Norm,
    Normalization,
    Pool,
    Shape,
)
from scalecurve_models.networks.receptive import Field, receptive_fields

VALUE_BYTES = 4
Convention = Literal["mac", "2mac", "lu"]
CONVENTIONS: dict[Convention, str] = {
    "mac": "multiply-adds of convolutions and fully connected layers, called FLOPs by torchvision and ptflops",
    "2mac": "two FLOPs per multiply-add, as in a device's peak",
    "lu": "Lu et al. 2017: one FLOP per multiply-add, plus biases, ReLU, pooling, LRN, BN (4) and sums (2)",
}

_KEPT = Input | Conv | Deconv | Dense | Pool | LocalResponseNorm | Add | Concat
"""Layers whose output is kept; the others work in place."""


@dataclass(frozen=True)
class Work:
    """Counts for one sample; parameters are counted once. Minor operations count elements, not FLOPs."""

    weights: int = 0
    biases: int = 0
    norm_parameters: int = 0
    macs: int = 0
    bias_adds: int = 0
    activated: int = 0
    pooled: int = 0  # values read by pool windows
    lrn: int = 0  # elements times the channels that each is normalized over
    normed: int = 0
    summed: int = 0

    @property
    def parameters(self) -> int:
        return self.weights + self.biases + self.norm_parameters

    def flops(self, convention: Convention) -> int:
        """Count FLOPs by a convention. Lu et al.'s rule reproduces the totals in their tables for Caffe's networks."""
        if convention == "mac":
            return self.macs
        if convention == "2mac":
            return 2 * self.macs
        return self.macs + self.bias_adds + self.activated + self.pooled + self.lrn + 4 * self.normed + 2 * self.summed


@dataclass(frozen=True)
class LayerCount:
    """A layer with its shapes and counts. ``activations`` is the number of values kept; 0 for in-place layers."""

    layer: AnyLayer
    inputs: tuple[Shape, ...]
    output: Shape
    activations: int
    work: Work
    field: Field

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def convolution(self) -> bool:
        return isinstance(self.layer, Conv | Deconv)

    def memory_bytes(self, batch: int = 1) -> int:
        return VALUE_BYTES * (batch * self.activations + self.work.parameters)


@dataclass(frozen=True)
class Totals:
    """Sums over a network. ``work`` is the main network, ``auxiliary`` what exists only in training."""

    work: Work
    auxiliary: Work
    activations: int
    depth: int  # convolutions and fully connected layers on the longest path

    @property
    def parameters(self) -> int:
        """All learned values including auxiliary classifiers, as published by torchvision."""
        return self.work.parameters + self.auxiliary.parameters

    def forward_bytes(self, batch: int = 1) -> int:
        return VALUE_BYTES * (self.work.parameters + batch * self.activations)

    def training_bytes(self, batch: int = 1) -> int:
        """Sum the bytes of parameters, gradients and one momentum; of activations and their gradients. No workspace."""
        return VALUE_BYTES * (3 * self.parameters + 2 * batch * self.activations)


def count(network: Network) -> tuple[LayerCount, ...]:
    """Count every layer of a network, parents first."""
    fields = receptive_fields(network)
    counted = []
    for layer in network.layers:
        inputs, output = network.inputs_of(layer), network.shapes[layer.name]
        kept = prod(output) if isinstance(layer, _KEPT) else 0
        counted.append(LayerCount(layer, inputs, output, kept, work(layer, inputs, output), fields[layer.name]))
    return tuple(counted)


def totals(network: Network) -> Totals:
    """Sum the counts of every layer."""
    counted = count(network)
    proper = [entry for entry in counted if not entry.layer.auxiliary]
    return Totals(
        work=_sum([entry.work for entry in proper]),
        auxiliary=_sum([entry.work for entry in counted if entry.layer.auxiliary]),
        activations=sum(entry.activations for entry in proper),
        depth=_depth(network),
    )


def by_kind(network: Network, convention: Convention) -> dict[str, int]:
    """Count the FLOPs of the main network by kind of layer, as in the tables of Lu et al."""
    counted = [entry for entry in count(network) if not entry.layer.auxiliary]
    factor = 2 if convention == "2mac" else 1
    kinds = {"convolutions": 0, "fully connected": 0}
    for entry in counted:
        kind = "convolutions" if entry.convolution else "fully connected"
        kinds[kind] += factor * entry.work.macs + (entry.work.bias_adds if convention == "lu" else 0)
    if convention == "lu":
        total = _sum([entry.work for entry in counted])
        minor = {"ReLU": total.activated, "pooling": total.pooled, "local normalization": total.lrn}
        kinds |= minor | {"batch normalization": 4 * total.normed, "sums": 2 * total.summed}
    return kinds


def convention(name: str) -> Convention:
    """Check the name of a convention. Raises NetworkError."""
    if name not in CONVENTIONS:
        raise NetworkError(f"convention {name!r}: expected one of {', '.join(CONVENTIONS)}")
    return name


def work(layer: AnyLayer, inputs: tuple[Shape, ...], output: Shape) -> Work:
    """Count the work of one layer for one sample."""
    elements = prod(output)
    match layer:
        case Conv():
            weights = prod(layer.kernel) * (inputs[0][-1] // layer.groups) * layer.filters
            return _work_with_weights(layer, weights, weights * output[0] * output[1], output)
        case Deconv():
            weights = prod(layer.kernel) * inputs[0][-1] * layer.filters
            return _work_with_weights(layer, weights, weights * inputs[0][0] * inputs[0][1], output)
        case Dense():
            weights = prod(inputs[0]) * layer.features
            return _work_with_weights(layer, weights, weights, output)
        case Pool():
            return Work(pooled=prod(layer.window(inputs[0])[0]) * elements)
        case LocalResponseNorm():
            return Work(lrn=layer.size * elements)
        case Normalization():
            return Work(norm_parameters=_norm_parameters(layer.norm, output), normed=elements)
        case Activation():
            return Work(activated=elements)
        case Add():
            return Work(summed=elements, activated=elements if layer.activation else 0)
        case _:
            return Work()


def _work_with_weights(layer: Conv | Deconv | Dense, weights: int, macs: int, output: Shape) -> Work:
    elements = prod(output)
    return Work(
        weights=weights,
        biases=output[-1] if layer.bias else 0,
        norm_parameters=_norm_parameters(layer.norm, output),
        macs=macs,
        bias_adds=elements if layer.bias else 0,
        activated=elements if layer.activation else 0,
        normed=elements if layer.norm else 0,
    )


def _norm_parameters(norm: Norm | None, output: Shape) -> int:
    return 0 if norm is None else output[-1] * (2 if norm == "batch" else 1)


def _sum(works: Sequence[Work]) -> Work:
    return Work(**{name: sum(getattr(each, name) for each in works) for name in Work.__dataclass_fields__})


def _depth(network: Network) -> int:
    depths: dict[str, int] = {}
    for layer in network.main_layers:
        above = max((depths[parent] for parent in layer.parents), default=0)
        depths[layer.name] = above + isinstance(layer, Conv | Deconv | Dense)
    return max(depths.values())
