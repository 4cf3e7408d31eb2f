"""A network: layers parsed from their fields, in topological order, checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter, ValidationError

from scalecurve_api.text import did_you_mean
from scalecurve_models.networks.layer import AnyLayer, Input, Layer, NetworkError, Shape


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
        object.__setattr__(self, "layers", _sort_layers(self.layers))
        shapes: dict[str, Shape] = {}
        for layer in self.layers:
            shapes[layer.name] = layer.output(tuple(shapes[parent] for parent in layer.parents))
        object.__setattr__(self, "shapes", shapes)

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


def _sort_layers(layers: tuple[AnyLayer, ...]) -> tuple[AnyLayer, ...]:
    """The layers, parents first; as they are where they come in such an order."""
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
    place = {name: index for index, name in enumerate(names)}
    for layer in layers:
        if not layer.parents and not isinstance(layer, Input):
            raise NetworkError(f"layer {layer.name}: has no parents")
        for parent in layer.parents:
            if parent not in names:
                raise NetworkError(f"layer {layer.name}: parent {parent!r} does not exist")
    if all(place[parent] < place[layer.name] for layer in layers for parent in layer.parents):
        return layers
    try:
        order = TopologicalSorter({name: layer.parents for name, layer in names.items()}).static_order()
        return tuple(names[name] for name in order)
    except CycleError as error:
        cycle = error.args[1][:0:-1]
        first = cycle.index(min(cycle, key=place.__getitem__))
        raise NetworkError(f"the graph has a cycle: {' <- '.join(cycle[first:] + cycle[: first + 1])}") from error


_TYPES: dict[str, type[Layer]] = {
    name: layer for layer in get_args(AnyLayer) for name in get_args(layer.model_fields["type"].annotation)
}
_LAYER: TypeAdapter[AnyLayer] = TypeAdapter(Annotated[AnyLayer, Field(discriminator="type")])


def parse_layer(entry: Mapping[str, Any]) -> AnyLayer:
    """A layer from its fields. Raises NetworkError with the layer, the field and what is allowed."""
    name = entry.get("name")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise NetworkError(f"layer {name}: unknown type {kind!r}{_suggestion(str(kind), _TYPES)}")
    try:
        return _LAYER.validate_python(dict(entry))
    except ValidationError as error:
        raise NetworkError(f"layer {name}: {_first(error, _TYPES[kind])}") from error


def _first(error: ValidationError, kind: type[Layer]) -> str:
    problem = error.errors(include_url=False)[0]
    # The first part of a location is the type: the branch of the union.
    field = str(problem["loc"][1]) if len(problem["loc"]) > 1 else "layer"
    if problem["type"] == "extra_forbidden":
        return f"unknown field {field!r}{_suggestion(field, kind.model_fields)}"
    if problem["type"] == "missing":
        return f"{field} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{field}: {problem['input']!r}: {message[0].lower()}{message[1:]}"


def _suggestion(name: str, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    near = did_you_mean(name, names)
    return f"; did you mean {near!r}?" if near else f"; expected one of {', '.join(names)}"
