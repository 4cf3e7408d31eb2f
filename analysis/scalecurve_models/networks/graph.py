"""A network: layers in topological order, checked against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from scalecurve_models.networks.layer import AnyLayer, Input, NetworkError, Shape


@dataclass(frozen=True, eq=False)
class Network:
    """A directed acyclic graph of layers; compared by identity, so that results can be cached.

    Raises NetworkError for duplicate names, unknown parents, a cycle, not exactly one input, or incompatible shapes.
    ``source`` credits the description of the network.
    """

    name: str
    layers: tuple[AnyLayer, ...]
    title: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", _ordered(self.layers))
        object.__setattr__(self, "shapes", _shapes(self.layers))

    @cached_property
    def by_name(self) -> Mapping[str, AnyLayer]:
        return {layer.name: layer for layer in self.layers}

    @property
    def input(self) -> Input:
        return next(layer for layer in self.layers if isinstance(layer, Input))

    @property
    def main_layers(self) -> tuple[AnyLayer, ...]:
        return tuple(layer for layer in self.layers if not layer.auxiliary)

    @property
    def splits(self) -> int:
        """Devices that hold a share of the split layers; 1 for a network that is not split."""
        return len({layer.device for layer in self.layers if layer.device is not None}) or 1

    def inputs_of(self, layer: AnyLayer) -> tuple[Shape, ...]:
        return tuple(self.shapes[parent] for parent in layer.parents)

    def parents_of(self, layer: AnyLayer) -> Iterator[AnyLayer]:
        return (self.by_name[parent] for parent in layer.parents)

    def with_input(self, shape: Shape) -> Network:
        """The same layers over samples of another shape. Raises NetworkError if they do not fit."""
        layers = (Input(name=layer.name, shape=shape) if isinstance(layer, Input) else layer for layer in self.layers)
        return replace(self, layers=tuple(layers))


def _ordered(layers: tuple[AnyLayer, ...]) -> tuple[AnyLayer, ...]:
    if not layers:
        raise NetworkError("a network needs at least an input and a layer")
    names: dict[str, AnyLayer] = {}
    for layer in layers:
        if layer.name in names:
            raise NetworkError(f"layer {layer.name}: duplicate name")
        names[layer.name] = layer
    inputs = [layer.name for layer in layers if isinstance(layer, Input)]
    if len(inputs) != 1:
        raise NetworkError(f"expected one input, got {len(inputs)}{': ' + ', '.join(inputs) if inputs else ''}")
    for layer in layers:
        if not layer.parents and not isinstance(layer, Input):
            raise NetworkError(f"layer {layer.name}: has no parents")
        for parent in layer.parents:
            if parent not in names:
                raise NetworkError(f"layer {layer.name}: parent {parent!r} does not exist")
    return _sorted(layers, names)


def _sorted(layers: tuple[AnyLayer, ...], names: Mapping[str, AnyLayer]) -> tuple[AnyLayer, ...]:
    done: dict[str, AnyLayer] = {}
    for start in layers:
        pending = [(start, iter(start.parents))]
        open_names = {start.name: None} if start.name not in done else {}
        while pending and open_names:
            layer, parents = pending[-1]
            parent = next((name for name in parents if name not in done), None)
            if parent is None:
                done[layer.name] = layer
                pending.pop()
                open_names.pop(layer.name)
            elif parent in open_names:
                path = [*list(open_names)[list(open_names).index(parent) :], parent]
                raise NetworkError(f"the graph has a cycle: {' <- '.join(path)}")
            else:
                open_names[parent] = None
                pending.append((names[parent], iter(names[parent].parents)))
    return tuple(done.values())


def _shapes(layers: tuple[AnyLayer, ...]) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for layer in layers:
        shapes[layer.name] = layer.output(tuple(shapes[parent] for parent in layer.parents))
    return shapes
