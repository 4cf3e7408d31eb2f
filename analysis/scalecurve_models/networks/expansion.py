"""Expand the blocks of our network format into a list of layers with full names and explicit parents.

A layer's ``from`` defaults to the one before it. A block is used by ``{name, block, with, repeat, splits, from}``: its
layers are named ``use/layer``, a text ``$width`` in it becomes the value in ``with``, and its last layer is the output
of the use. ``repeat: 3`` chains three uses, named ``use_1`` to ``use_3``. ``splits: 4`` puts a copy of the block on
each of four devices, with a quarter of the filters; inside, ``layer@all`` is that layer on every device.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scalecurve_models.networks.layer import NetworkError

INPUT = "input"
MOST_LAYERS = 20_000
USE_KEYS = ("name", "block", "with", "repeat", "splits", "from", "auxiliary")

Names = tuple[str, ...]
Written = list[dict[str, Any]]


@dataclass(frozen=True)
class _Scope:
    """The context of a layer. ``known`` maps a local name to the layers whose outputs it stands for."""

    blocks: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    known: dict[str, Names] = field(default_factory=dict)
    prefix: str = ""
    auxiliary: bool = False
    device: int | None = None
    splits: int = 1
    open_blocks: Names = ()

    def full(self, name: str) -> str:
        return f"{self.prefix}{name}" if self.device is None else f"{self.prefix}{name}@{self.device}"


def flatten(layers: Any, blocks: Any) -> Written:
    """The layers with blocks expanded. Raises NetworkError for anything but a list of layers and known blocks."""
    if not isinstance(blocks, dict):
        raise NetworkError("blocks: expected a mapping of names to lists of layers")
    written: Written = []
    _write(layers, _Scope(blocks, known={INPUT: (INPUT,)}), (INPUT,), written)
    return written


def _write(layers: Any, scope: _Scope, previous: Names, written: Written) -> Names:
    for entry in _entries(layers, scope):
        write = _use if "block" in entry else _layer
        previous = write(entry, scope, previous, written)
        scope.known[entry["name"]] = previous
    return previous


def _entries(layers: Any, scope: _Scope) -> list[dict[str, Any]]:
    if not isinstance(layers, list) or not layers:
        raise NetworkError(f"{scope.prefix or 'layers'}: expected a list of one or more layers")
    for entry in layers:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise NetworkError(f"{scope.prefix}{entry!r}: expected a layer, a mapping with a name")
    return layers


def _layer(entry: dict[str, Any], scope: _Scope, previous: Names, written: Written) -> Names:
    full = scope.full(entry["name"])
    layer = {key: _substitute(value, scope, full) for key, value in entry.items() if key != "from"}
    layer |= {"name": full, "parents": list(_parents(entry, scope, previous))}
    if scope.auxiliary:
        layer["auxiliary"] = True
    if scope.device is not None:
        layer["device"] = scope.device
        _split(layer, scope.splits)
    if len(written) >= MOST_LAYERS:
        raise NetworkError(f"layer {full}: blocks expand to more than {MOST_LAYERS:,} layers")
    written.append(layer)
    return (full,)


def _split(layer: dict[str, Any], splits: int) -> None:
    for key in ("filters", "features"):
        if isinstance(layer.get(key), int):
            if layer[key] % splits:
                raise NetworkError(f"layer {layer['name']}: {key} {layer[key]}: cannot be split over {splits} devices")
            layer[key] //= splits


def _use(entry: dict[str, Any], scope: _Scope, previous: Names, written: Written) -> Names:
    name = scope.full(entry["name"])
    _check_use(entry, scope, name)
    repeat, splits = entry.get("repeat", 1), entry.get("splits", 1)
    values = {key: _substitute(value, scope, name) for key, value in entry.get("with", {}).items()}
    last = _parents(entry, scope, previous)
    auxiliary = scope.auxiliary or entry.get("auxiliary") is True
    inner = replace(scope, values=values, auxiliary=auxiliary, open_blocks=(*scope.open_blocks, entry["block"]))
    for turn in range(1, repeat + 1):
        use = name if repeat == 1 else f"{name}_{turn}"
        inner = replace(inner, prefix=f"{use}/", known={INPUT: last})
        layers = scope.blocks[entry["block"]]
        write = _write if splits == 1 else _write_split
        last = write(layers, replace(inner, splits=max(splits, scope.splits)), last, written)
    scope.known.update({f"{entry['name']}/{key}": names for key, names in inner.known.items() if key != INPUT})
    return last


def _check_use(entry: dict[str, Any], scope: _Scope, name: str) -> None:
    unknown = [key for key in entry if key not in USE_KEYS]
    block = entry["block"]
    if unknown:
        allowed = ", ".join(USE_KEYS)
        raise NetworkError(f"layer {name}: unknown key {unknown[0]!r} in the use of a block; expected one of {allowed}")
    if not isinstance(block, str) or block not in scope.blocks:
        known = ", ".join(scope.blocks) or "none"
        raise NetworkError(f"layer {name}: unknown block {block!r}; expected one of {known}")
    if block in scope.open_blocks:
        raise NetworkError(f"layer {name}: block {block!r} uses itself")
    if not isinstance(entry.get("with", {}), dict):
        raise NetworkError(f"layer {name}: with: expected a mapping of names to values")
    for key in ("repeat", "splits"):
        value = entry.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
            raise NetworkError(f"layer {name}: {key} {value!r}: expected an integer from 1 to 1000")


def _write_split(layers: Any, scope: _Scope, start: Names, written: Written) -> Names:
    """Write a block on every device, layer by layer, so that a layer can use earlier outputs of all devices."""
    ends = [start] * scope.splits
    devices = [replace(scope, device=device, known=dict(scope.known)) for device in range(scope.splits)]
    for entry in _entries(layers, scope):
        if "block" in entry:
            raise NetworkError(f"layer {scope.full(entry['name'])}: nested blocks cannot be split")
        ends = [_write([entry], each, end, written) for each, end in zip(devices, ends, strict=True)]
        together = tuple(name for end in ends for name in end)
        for each in (scope, *devices):
            each.known[f"{entry['name']}@all"] = together
    return tuple(name for end in ends for name in end)


def _parents(entry: dict[str, Any], scope: _Scope, previous: Names) -> Names:
    source = entry.get("from")
    if source is None:
        return previous
    parents: list[str] = []
    for name in source if isinstance(source, list) else [source]:
        name = _substitute(name, scope, scope.full(entry["name"]))
        if not isinstance(name, str):
            raise NetworkError(f"layer {scope.full(entry['name'])}: from: expected the name of a layer, got {name!r}")
        # An unknown name may be defined later; Network checks.
        parents += scope.known.get(name, (scope.full(name),))
    return tuple(parents)


def _substitute(value: Any, scope: _Scope, layer: str) -> Any:
    if isinstance(value, list):
        return [_substitute(each, scope, layer) for each in value]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value[1:] not in scope.values:
        raise NetworkError(f"layer {layer}: {value}: not set by the use of the block")
    return scope.values[value[1:]]
