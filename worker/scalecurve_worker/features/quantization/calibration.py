"""Calibration: the range of every activation, and histograms of parameters and outputs by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, fx

from scalecurve_api.features.quantization.facts import LayerHistogram
from scalecurve_worker.features.quantization.folding import Operation, kind_of

BINS = 48
_Kind = Literal["weights", "biases", "activations"]
_WATCHED = (Operation.start, Operation.layer, Operation.rectify, Operation.sum, Operation.joined)


@dataclass(frozen=True)
class Calibration:
    """Least and greatest value of each node over the calibration batches, and the histograms of the layers."""

    ranges: dict[str, tuple[float, float]]
    histograms: list[LayerHistogram]


def calibrate(graph: fx.GraphModule, batches: Sequence[Tensor]) -> Calibration:
    """Send ``batches`` of inputs through, twice: a histogram needs its ends first."""
    watched = {node.name for node in graph.graph.nodes if kind_of(graph, node) in _WATCHED}
    ranges = _Ranges(graph, watched)
    layers = {settled(graph, node).name: str(node.target) for node in layers_of(graph)}
    with torch.no_grad():
        for batch in batches:
            ranges.run(batch.float())
        counting = _Counting(graph, {name: ranges.seen[name] for name in layers})
        for batch in batches:
            counting.run(batch.float())
    histograms = []
    for name, layer in layers.items():
        module = graph.get_submodule(layer)
        histograms += _bin_values(layer, "weights", module.weight) + _bin_values(layer, "biases", module.bias)
        histograms.append(_histogram(layer, "activations", ranges.seen[name], counting.counts[name]))
    return Calibration(ranges.seen, histograms)


def settled(graph: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Return the ReLU that is a node's only user, as both are one operation in integers; otherwise the node itself."""
    users = list(node.users)
    return users[0] if len(users) == 1 and kind_of(graph, users[0]) is Operation.rectify else node


def layers_of(graph: fx.GraphModule) -> list[fx.Node]:
    """Return convolutions and linear layers, in their order."""
    return [node for node in graph.graph.nodes if kind_of(graph, node) is Operation.layer]


class _Ranges(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule, watched: set[str]) -> None:
        super().__init__(graph)
        self.watched = watched
        self.seen: dict[str, tuple[float, float]] = {}

    def run_node(self, n: fx.Node) -> Tensor:
        value: Tensor = super().run_node(n)
        if n.name in self.watched:
            # At once: what comes after may change the values in place.
            low, high = (float(end) for end in torch.aminmax(value))
            before = self.seen.get(n.name, (low, high))
            self.seen[n.name] = min(low, before[0]), max(high, before[1])
        return value


class _Counting(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule, ranges: dict[str, tuple[float, float]]) -> None:
        super().__init__(graph)
        self.ranges = ranges
        self.counts = {name: torch.zeros(BINS, dtype=torch.int64) for name in ranges}

    def run_node(self, n: fx.Node) -> Tensor:
        value: Tensor = super().run_node(n)
        if n.name in self.ranges:
            self.counts[n.name] += torch.histc(value.cpu(), BINS, *_apart(*self.ranges[n.name])).long()
        return value


def _apart(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _bin_values(layer: str, kind: _Kind, values: object) -> list[LayerHistogram]:
    """Count parameters in bins; nothing where a layer has none."""
    if not isinstance(values, Tensor):
        return []
    held = values.detach().float().cpu()
    ends = float(held.min()), float(held.max())
    return [_histogram(layer, kind, ends, torch.histc(held, BINS, *_apart(*ends)))]


def _histogram(layer: str, kind: _Kind, ends: tuple[float, float], counts: Tensor) -> LayerHistogram:
    low, high = _apart(*ends)
    return LayerHistogram(layer=layer, kind=kind, low=low, high=high, counts=counts.long().tolist())
