"""Paleo's JSON: networks as TalwalkarLab/paleo (Apache-2.0) describes them, nets/README.md of commit 984bbf5.

What Paleo leaves unsaid is read so that its own parameter counts come out: every convolution has one learnt offset a
filter, a bias or, where ``normalizer_fn`` is there, the offset of a normalisation without a scale (TF-slim's).
A convolution whose one window is its whole input, and whose output only such layers use, is read as a fully connected
layer ``as_convolution``. Types that Paleo does not know cost nothing there, and are ``other`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import AnyLayer, Concat, Conv, Dense, Dropout, NetworkError, Softmax
from scalecurve_models.networks.parsing import parse_layer

Fields = dict[str, Any]
BLOCKS = ("Block", "ModelParallel")


def network_of_paleo(tree: dict[str, Any]) -> Network:
    """The network that a tree of Paleo's JSON describes. Raises NetworkError."""
    written = [_layer(name, params) for name, params in _written_out(tree["layers"]).items()]
    name = tree.get("name", "network")
    network = Network(str(name), tuple(written), source="Paleo's JSON")
    _check_channels(network, tree["layers"])
    return Network(network.name, _with_dense(network), source=network.source)


def _written_out(layers: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Blocks and splits written out: full name -> parameters with ``parents`` (full names) and ``device``."""
    endpoints = {
        name: f"{name}/{params['endpoint']}"
        for name, params in layers.items()
        if _kind(name, params) in BLOCKS and "endpoint" in params
    }
    splits = {
        f"{name}/{inner}": _splits(name, params)
        for name, params in layers.items()
        if _kind(name, params) == "ModelParallel"
        for inner in _inner(name, params)
    }

    def parents(names: Any, owner: str, device: int | None) -> list[str]:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise NetworkError(f"layer {owner}: parents: {names!r}: a list of names is wanted")
        found: list[str] = []
        for name in names:
            plain, _, where = name.partition("@")
            target = endpoints.get(plain, plain)
            if where == "all":
                found += [f"{target}@{split}" for split in range(splits.get(plain, 0))]
            else:
                found.append(f"{target}@{device}" if where == "self" else target)
        return found

    written: dict[str, dict[str, Any]] = {}
    for name, params in layers.items():
        above = parents(params.get("parents"), name, None)
        if _kind(name, params) not in BLOCKS:
            written[name] = {**params, "parents": above}
            continue
        devices = range(_splits(name, params)) if params["type"] == "ModelParallel" else (None,)
        for device in devices:
            for inner, inner_params in _inner(name, params).items():
                full = f"{name}/{inner}" if device is None else f"{name}/{inner}@{device}"
                _kind(full, inner_params)
                own = inner_params.get("parents")
                own = [f"{name}/{parent}" for parent in own] if isinstance(own, list) else own
                written[full] = {**inner_params, "parents": parents(own, full, device) or above, "device": device}
                written[full]["splits"] = len(devices)
    return written


def _kind(name: str, params: Any) -> str:
    if not isinstance(params, dict) or not isinstance(params.get("type"), str):
        raise NetworkError(f"layer {name}: a mapping with a type is wanted")
    return str(params["type"])


def _splits(name: str, params: Mapping[str, Any]) -> int:
    splits = params.get("splits", 1)
    if isinstance(splits, bool) or not isinstance(splits, int) or not 1 <= splits <= 1024:
        raise NetworkError(f"layer {name}: splits: {splits!r}: a whole number from 1 to 1024 is wanted")
    return splits


def _inner(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    inner = params.get("layers")
    if not isinstance(inner, dict):
        raise NetworkError(f"layer {name}: layers: a mapping of names to layers is wanted")
    return inner


def _layer(name: str, params: Mapping[str, Any]) -> AnyLayer:
    kind = params["type"]
    fields = _READ[kind](name, params) if kind in _READ else {"type": "other", "what": kind}
    return parse_layer({"name": name, "parents": params["parents"], "device": params.get("device"), **fields})


def _input(name: str, params: Mapping[str, Any]) -> Fields:
    return {"type": "input", "shape": _numbers(name, params, "tensor", least=2)[1:]}


def _convolution(name: str, params: Mapping[str, Any]) -> Fields:
    height, width, channels, filters = _four(name, params, "filter")
    normed = params.get("normalizer_fn") is not None
    fields = {
        "type": "conv",
        "filters": filters,
        "kernel": [height, width],
        "stride": _four(name, params, "strides")[1:3],
        "padding": _padding(name, params),
        "bias": not normed,
        "norm": "center" if normed else None,
        "activation": params.get("activation_fn", "relu"),
    }
    if params["type"] == "Deconvolution":
        # The filter is that of the convolution which this one transposes: its channels are what comes out.
        size = _four(name, params, "output_shape")[1:3]
        return fields | {"type": "deconv", "filters": channels, "size": size}
    splits = params.get("splits", 1)
    return fields | {"filters": filters // splits}


def _pool(name: str, params: Mapping[str, Any]) -> Fields:
    kernel, strides = (_four(name, params, key)[1:3] for key in ("ksize", "strides"))
    kind = "maxpool" if params["type"] == "Pooling" else "avgpool"
    return {"type": kind, "kernel": kernel, "stride": strides, "padding": _padding(name, params)}


def _concatenate(name: str, params: Mapping[str, Any]) -> Fields:
    if _required(name, params, "dim") not in (-1, 1, 3):
        raise NetworkError(f"layer {name}: dim: {params['dim']!r}: only channels (3) are joined here")
    return {"type": "concat"}


def _reshape(name: str, params: Mapping[str, Any]) -> Fields:
    shape = _numbers(name, params, "output_shape", least=2)[1:]
    return {"type": "flatten"} if shape == [-1] else {"type": "reshape", "shape": shape}


_READ: dict[str, Callable[[str, Mapping[str, Any]], Fields]] = {
    "Input": _input,
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "Pooling": _pool,
    "AvgPool": _pool,
    "UpSampling2D": lambda name, params: {"type": "upsample", "factor": _four(name, params, "ksize")[1:3]},
    "InnerProduct": lambda name, params: {"type": "fc", "features": _required(name, params, "num_outputs")},
    "Dropout": lambda name, params: {"type": "dropout", "rate": 1 - _share(name, params)},
    "Concatenate": _concatenate,
    "Reshape": _reshape,
    "Elementwise": lambda name, params: {"type": "add"},
    "Softmax": lambda name, params: {"type": "softmax"},
    "Sigmoid": lambda name, params: {"type": "other", "what": "Sigmoid", "shape": [1]},
}


def _padding(name: str, params: Mapping[str, Any]) -> Any:
    padding = _required(name, params, "padding")
    if padding in ("VALID", "SAME"):
        return padding.lower()
    if isinstance(padding, list) and len(padding) == 2:
        return padding
    raise NetworkError(f"layer {name}: padding: {padding!r}: VALID, SAME or [rows, columns] is wanted")


def _required(name: str, params: Mapping[str, Any], key: str) -> Any:
    if key not in params:
        raise NetworkError(f"layer {name}: {key} is missing")
    return params[key]


def _share(name: str, params: Mapping[str, Any]) -> float:
    keep = _required(name, params, "dropout_keep_prob")
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 <= keep <= 1:
        raise NetworkError(f"layer {name}: dropout_keep_prob: {keep!r}: a number from 0 to 1 is wanted")
    return float(keep)


def _numbers(name: str, params: Mapping[str, Any], key: str, least: int) -> list[int]:
    values = _required(name, params, key)
    whole = isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if not whole or len(values) < least:
        raise NetworkError(f"layer {name}: {key}: {values!r}: a list of {least} or more whole numbers is wanted")
    return list(values)


def _four(name: str, params: Mapping[str, Any], key: str) -> list[int]:
    values = _numbers(name, params, key, least=4)
    if len(values) != 4:
        raise NetworkError(f"layer {name}: {key}: {values!r}: four whole numbers are wanted")
    return values


def _check_channels(network: Network, layers: Mapping[str, Any]) -> None:
    """A filter says how many channels it reads, or -1; Paleo stops when that is not what comes in."""
    for name, params in _written_out(layers).items():
        if params["type"] != "Convolution":
            continue
        channels = network.inputs_of(network.by_name[name])[0][-1]
        if params["filter"][2] not in (-1, channels):
            raise NetworkError(f"layer {name}: filter: reads {params['filter'][2]} channels, its input has {channels}")


def _with_dense(network: Network) -> tuple[AnyLayer, ...]:
    """Convolutions over their whole input, as fully connected layers; see the head of this file."""
    users: dict[str, list[AnyLayer]] = {layer.name: [] for layer in network.layers}
    for layer in network.layers:
        for parent in layer.parents:
            users[parent].append(layer)
    flat: dict[str, bool] = {}
    for layer in reversed(network.layers):
        # These take a 1x1 map and a vector alike; the first two give a vector whatever they take.
        if isinstance(layer, Dense | Softmax):
            flat[layer.name] = True
            continue
        passes = isinstance(layer, Dropout | Concat) or (isinstance(layer, Conv) and _covers(layer, network))
        flat[layer.name] = passes and all(flat[user.name] for user in users[layer.name])
    return tuple(_dense(layer) if isinstance(layer, Conv) and flat[layer.name] else layer for layer in network.layers)


def _covers(conv: Conv, network: Network) -> bool:
    height, width, _ = network.inputs_of(conv)[0]
    return conv.kernel == (height, width) and network.shapes[conv.name][:2] == (1, 1)


def _dense(conv: Conv) -> Dense:
    kept = conv.model_dump(include={"name", "parents", "device", "auxiliary", "bias", "norm", "activation"})
    return Dense(features=conv.filters, as_convolution=True, **kept)
