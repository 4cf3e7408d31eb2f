"""Paleo's JSON: networks as TalwalkarLab/paleo (Apache-2.0) describes them, nets/README.md of commit 984bbf5.

What Paleo leaves open is read so that its parameter counts are reproduced: every convolution has one learned offset per
filter, a bias or, with ``normalizer_fn``, the offset of a normalization without a scale (TF-slim's). A convolution over
its full input whose output only such layers use is read as a fully connected layer ``as_convolution``. Types unknown
to Paleo cost nothing there, and are ``other`` here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from scalecurve_models.networks.graph import Network, parse_layer
from scalecurve_models.networks.layer import AnyLayer, Concat, Conv, Dense, Dropout, NetworkError, Softmax

Fields = dict[str, Any]
BLOCKS = ("Block", "ModelParallel")


def network_of_paleo(tree: dict[str, Any]) -> Network:
    """The network described by Paleo's JSON. Raises NetworkError."""
    written = [_layer(name, params) for name, params in _expand_blocks(tree["layers"]).items()]
    name = tree.get("name", "network")
    network = Network(str(name), tuple(written), source="Paleo's JSON")
    _check_channels(network, tree["layers"])
    return Network(network.name, _convert_full_convolutions(network), source=network.source)


def _expand_blocks(layers: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Expand blocks and splits: full name -> parameters with ``parents`` (full names) and ``device``."""
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
            raise NetworkError(f"layer {owner}: parents: expected a list of names, got {names!r}")
        full_names: list[str] = []
        for name in names:
            plain, _, where = name.partition("@")
            target = endpoints.get(plain, plain)
            if where == "all":
                full_names += [f"{target}@{split}" for split in range(splits.get(plain, 0))]
            else:
                full_names.append(f"{target}@{device}" if where == "self" else target)
        return full_names

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
                local = inner_params.get("parents")
                local = [f"{name}/{parent}" for parent in local] if isinstance(local, list) else local
                written[full] = {**inner_params, "parents": parents(local, full, device) or above, "device": device}
                written[full]["splits"] = len(devices)
    return written


def _kind(name: str, params: Any) -> str:
    if not isinstance(params, dict) or not isinstance(params.get("type"), str):
        raise NetworkError(f"layer {name}: expected a mapping with a type")
    return str(params["type"])


def _splits(name: str, params: Mapping[str, Any]) -> int:
    splits = params.get("splits", 1)
    if isinstance(splits, bool) or not isinstance(splits, int) or not 1 <= splits <= 1024:
        raise NetworkError(f"layer {name}: splits {splits!r}: expected an integer from 1 to 1024")
    return splits


def _inner(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    inner = params.get("layers")
    if not isinstance(inner, dict):
        raise NetworkError(f"layer {name}: layers: expected a mapping of names to layers")
    return inner


def _layer(name: str, params: Mapping[str, Any]) -> AnyLayer:
    kind = params["type"]
    fields = _READ[kind](name, params) if kind in _READ else {"type": "other", "what": kind}
    return parse_layer({"name": name, "parents": params["parents"], "device": params.get("device"), **fields})


def _convolution(name: str, params: Mapping[str, Any]) -> Fields:
    height, width, channels, filters = _four(name, params, "filter")
    normed = params.get("normalizer_fn") is not None
    fields = {
        "type": "conv", "filters": filters // params.get("splits", 1), "kernel": [height, width],
        "stride": _four(name, params, "strides")[1:3], "padding": _padding(name, params), "bias": not normed,
        "norm": "center" if normed else None, "activation": params.get("activation_fn", "relu"),
    }  # fmt: skip
    if params["type"] == "Deconvolution":
        # The filter belongs to the convolution being transposed: its input channels are the output.
        fields |= {"type": "deconv", "filters": channels, "size": _four(name, params, "output_shape")[1:3]}
    return fields


def _pool(name: str, params: Mapping[str, Any]) -> Fields:
    kernel, strides = (_four(name, params, key)[1:3] for key in ("ksize", "strides"))
    kind = "maxpool" if params["type"] == "Pooling" else "avgpool"
    return {"type": kind, "kernel": kernel, "stride": strides, "padding": _padding(name, params)}


def _concatenate(name: str, params: Mapping[str, Any]) -> Fields:
    if _require_value(name, params, "dim") not in (-1, 1, 3):
        raise NetworkError(f"layer {name}: dim: expected channels (3), got {params['dim']!r}")
    return {"type": "concat"}


def _reshape(name: str, params: Mapping[str, Any]) -> Fields:
    shape = _numbers(name, params, "output_shape", least=2)[1:]
    return {"type": "flatten"} if shape == [-1] else {"type": "reshape", "shape": shape}


_READ: dict[str, Callable[[str, Mapping[str, Any]], Fields]] = {
    "Input": lambda name, params: {"type": "input", "shape": _numbers(name, params, "tensor", least=2)[1:]},
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "Pooling": _pool,
    "AvgPool": _pool,
    "UpSampling2D": lambda name, params: {"type": "upsample", "factor": _four(name, params, "ksize")[1:3]},
    "InnerProduct": lambda name, params: {"type": "fc", "features": _require_value(name, params, "num_outputs")},
    "Dropout": lambda name, params: {"type": "dropout", "rate": 1 - _share(name, params)},
    "Concatenate": _concatenate,
    "Reshape": _reshape,
    "Elementwise": lambda name, params: {"type": "add"},
    "Softmax": lambda name, params: {"type": "softmax"},
    "Sigmoid": lambda name, params: {"type": "other", "what": "Sigmoid", "shape": [1]},
}


def _padding(name: str, params: Mapping[str, Any]) -> Any:
    padding = _require_value(name, params, "padding")
    if padding in ("VALID", "SAME"):
        return padding.lower()
    if isinstance(padding, list) and len(padding) == 2:
        return padding
    raise NetworkError(f"layer {name}: padding: expected VALID, SAME or [rows, columns], got {padding!r}")


def _require_value(name: str, params: Mapping[str, Any], key: str) -> Any:
    if key not in params:
        raise NetworkError(f"layer {name}: {key} is missing")
    return params[key]


def _share(name: str, params: Mapping[str, Any]) -> float:
    keep = _require_value(name, params, "dropout_keep_prob")
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 <= keep <= 1:
        raise NetworkError(f"layer {name}: dropout_keep_prob: expected a number from 0 to 1, got {keep!r}")
    return float(keep)


def _numbers(name: str, params: Mapping[str, Any], key: str, least: int) -> list[int]:
    values = _require_value(name, params, key)
    integers = isinstance(values, list) and all(type(value) is int for value in values)
    if not integers or len(values) < least:
        raise NetworkError(f"layer {name}: {key}: expected a list of {least} or more integers, got {values!r}")
    return list(values)


def _four(name: str, params: Mapping[str, Any], key: str) -> list[int]:
    values = _numbers(name, params, key, least=4)
    if len(values) != 4:
        raise NetworkError(f"layer {name}: {key}: expected four integers, got {values!r}")
    return values


def _check_channels(network: Network, layers: Mapping[str, Any]) -> None:
    """A filter states its input channels, or -1; like Paleo, refuse a mismatch."""
    for name, params in _expand_blocks(layers).items():
        if params["type"] != "Convolution":
            continue
        channels = network.inputs_of(network.by_name[name])[0][-1]
        if params["filter"][2] not in (-1, channels):
            raise NetworkError(
                f"layer {name}: filter: expects {params['filter'][2]} channels, but the input has {channels}"
            )


def _convert_full_convolutions(network: Network) -> tuple[AnyLayer, ...]:
    """Convolutions over their full input as fully connected layers; see the module docstring."""
    users: dict[str, list[AnyLayer]] = {layer.name: [] for layer in network.layers}
    for layer in network.layers:
        for parent in layer.parents:
            users[parent].append(layer)
    flat: dict[str, bool] = {}
    for layer in reversed(network.layers):
        # These accept a 1x1 map or a vector; the first two always output a vector.
        if isinstance(layer, Dense | Softmax):
            flat[layer.name] = True
            continue
        passes = isinstance(layer, Dropout | Concat)
        if isinstance(layer, Conv):
            passes = layer.kernel == network.inputs_of(layer)[0][:2] and network.shapes[layer.name][:2] == (1, 1)
        flat[layer.name] = passes and all(flat[user.name] for user in users[layer.name])
    return tuple(_dense(layer) if isinstance(layer, Conv) and flat[layer.name] else layer for layer in network.layers)


def _dense(conv: Conv) -> Dense:
    kept = conv.model_dump(include={"name", "parents", "device", "auxiliary", "bias", "norm", "activation"})
    return Dense(features=conv.filters, as_convolution=True, **kept)
