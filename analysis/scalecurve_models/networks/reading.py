"""Network files: our format (YAML or JSON) and Paleo's JSON, recognized by content."""

import json
from pathlib import Path
from typing import Any

import yaml

from scalecurve_api.files import read_regular
from scalecurve_models.networks.expansion import flatten
from scalecurve_models.networks.graph import Network, parse_layer
from scalecurve_models.networks.layer import Input, NetworkError, Shape
from scalecurve_models.networks.paleo_json import network_of_paleo

KEYS = ("network", "title", "source", "notes", "input", "blocks", "layers")


def read_network(path: Path) -> Network:
    """Read a network file.

    Raises NetworkError, starting with the file name, for a file that cannot be read or an invalid network.
    """
    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise NetworkError(f"{path}: cannot be read: {why}") from error
    return network_of_text(text, str(path))


def network_of_text(text: str, file: str) -> Network:
    """The network described by a text; ``file`` is for messages. Raises NetworkError."""
    try:
        tree = _tree(text)
        if not isinstance(tree, dict):
            raise NetworkError("expected a mapping with a list of layers")
        return network_of_paleo(tree) if isinstance(tree.get("layers"), dict) else network_of_tree(tree)
    except NetworkError as error:
        raise NetworkError(f"{file}: {error}") from error


def network_of_tree(tree: dict[str, Any]) -> Network:
    """The network described in our format. Raises NetworkError."""
    unknown = [key for key in tree if key not in KEYS]
    if unknown:
        raise NetworkError(f"unknown key {unknown[0]!r}; expected one of {', '.join(KEYS)}")
    missing = [key for key in ("network", "input", "layers") if key not in tree]
    if missing:
        raise NetworkError(f"{missing[0]!r} is missing")
    for key in ("network", "title", "source"):
        if not isinstance(tree.get(key, ""), str):
            raise NetworkError(f"{key}: expected text, got {tree[key]!r}")
    notes = tree.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise NetworkError("notes: expected a list of texts")
    shape = parse_layer({"name": "input", "type": "input", "shape": tree["input"]})
    layers = [shape, *(parse_layer(entry) for entry in flatten(tree["layers"], tree.get("blocks", {})))]
    return Network(tree["network"], tuple(layers), tree.get("title", ""), tree.get("source", ""), tuple(notes))


def write_network(network: Network) -> str:
    """A network in our format, one layer per line with explicit parents, as read by ``read_network``."""
    stated = {"title": network.title, "source": network.source, "notes": list(network.notes)}
    tree: dict[str, Any] = {"network": network.name, **{key: value for key, value in stated.items() if value}}
    tree["input"] = list(network.input.shape)
    head = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)
    renamed = {network.input.name: "input"}
    lines = []
    for layer in network.layers:
        if isinstance(layer, Input):
            continue
        fields = layer.model_dump(mode="json", exclude_defaults=True, exclude={"parents", "name"})
        parents = [renamed.get(parent, parent) for parent in layer.parents]
        entry = {"name": layer.name, "type": layer.kind, "from": parents[0] if len(parents) == 1 else parents}
        entry |= {key: value for key, value in fields.items() if key != "type"}
        lines.append(f"  - {json.dumps(entry, ensure_ascii=False)}\n")
    return head + "layers:\n" + "".join(lines)


def shape_of_text(text: str) -> Shape:
    """``224x224x3`` as a shape. Raises NetworkError."""
    parts = text.lower().split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise NetworkError(f"shape {text!r}: expected positive sizes such as 224x224x3")
    return tuple(int(part) for part in parts)


def _tree(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_no_twins)
        except json.JSONDecodeError as error:
            raise NetworkError(f"line {error.lineno}: invalid JSON: {error.msg}") from error
        except RecursionError as error:
            raise NetworkError("nested too deeply") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise NetworkError(f"{where}invalid YAML: {getattr(error, 'problem', None) or error}") from error
    except (RecursionError, ValueError) as error:
        raise NetworkError(f"invalid YAML: {type(error).__name__}") from error


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in pairs:
        if key in tree:
            raise NetworkError(f"duplicate key {key!r}")
        tree[key] = value
    return tree
