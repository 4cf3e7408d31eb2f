"""Nodes of a traced graph as fields of layers: which module or function maps to which layer.

Modules are recognized by class name and read by attribute, so that nothing here imports torch at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalecurve_models.networks.layer import NetworkError, Shape

if TYPE_CHECKING:
    from torch import fx

Fields = dict[str, Any]

ACTIVATIONS = {
    "relu", "relu6", "relu_", "leaky_relu", "leakyrelu", "silu", "gelu", "elu", "selu", "celu", "prelu", "hardswish",
    "hardsigmoid", "hardtanh", "mish", "sigmoid", "tanh", "softplus",
}  # fmt: skip
ADDITIONS = {"add", "iadd", "add_"}
PASSING = {"identity", "contiguous", "clone", "detach", "stochasticdepth", "stochastic_depth"}
WINDOW = ("kernel_size", "stride", "padding")
FUSED_NORM = {"conv", "deconv", "fc"}
FUSED_ACTIVATION = {"conv", "deconv", "fc", "add"}


@dataclass(frozen=True)
class NodeView:
    """A node of a traced graph: its operation, target (or the called function's name), module and output size."""

    node: fx.Node
    target: str
    part: Any
    size: tuple[int, ...] | None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def parents(self) -> list[str]:
        return [parent.name for parent in self.node.all_input_nodes]

    @property
    def kind(self) -> str:
        return self.target if self.part is None else type(self.part).__name__.lower()

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An attribute of a module, or an argument of a function."""
        if self.part is not None:
            return getattr(self.part, name)
        return self.node.args[position] if position < len(self.node.args) else self.node.kwargs.get(name, default)

    @property
    def shape(self) -> Shape:
        """Shape of one sample, channels last. Raises NetworkError unless it is a map or a vector."""
        size = self.size or ()
        if len(size) == 4:
            return (size[2], size[3], size[1])
        if len(size) == 2:
            return (size[1],)
        raise NetworkError(
            f"layer {self.name}: {self.kind} outputs {size or 'no tensor'}; only maps and vectors are supported"
        )


@dataclass
class GraphReader:
    """Takes nodes in execution order and collects the fields of their layers."""

    layers: dict[str, Fields] = field(default_factory=dict)
    parameters: int = 0
    uncounted: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    _where: dict[str, tuple[str, ...]] = field(default_factory=dict)  # node -> the layers that its output consists of
    _views: dict[str, NodeView] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    def notes(self) -> Iterator[str]:
        if self.uncounted:
            yield f"Not counted: {', '.join(sorted(self.uncounted))}."
        if self.shared:
            yield f"Used more than once and counted at each use: {', '.join(sorted(self.shared))}."

    def take(self, view: NodeView) -> None:
        self._views[view.name] = view
        if view.node.op == "output":
            return
        if view.node.op == "placeholder":
            if self.layers:
                raise NetworkError(f"input {view.name}: only one input is supported")
            self._add(view, {"type": "input", "shape": list(view.shape)}, "input")
        elif view.node.op == "get_attr":
            raise NetworkError(f"layer {view.target}: values outside a known layer are not supported")
        elif view.size is None:
            self._where[view.name] = self._parents(view)
        else:
            self._layer(view)

    def _layer(self, view: NodeView) -> None:
        parameters = self._parameters_of(view)
        kind = view.kind
        # An adaptive pool may be over a map that already has the output size.
        same = bool(view.parents) and self._views[view.parents[0]].size == view.size
        if kind in PASSING or (same and kind.startswith("adaptive")):
            self._where[view.name] = self._parents(view)[:1]
        elif kind in ("batchnorm2d", "batchnorm1d", "batchnorm", "syncbatchnorm") and parameters:
            self._join_or_add(view, "norm", "batch", FUSED_NORM)
        elif kind in ACTIVATIONS and not parameters:
            self._join_or_add(view, "activation", kind.rstrip("_"), FUSED_ACTIVATION)
        else:
            fields = self._layer_fields(view)
            if fields is None:
                if parameters:
                    kind = type(view.part).__name__
                    raise NetworkError(f"layer {view.target}: unsupported {kind} with {parameters:,} parameters")
                self.uncounted.add(kind)
                fields = {"type": "other", "what": kind, "shape": list(view.shape)}
            self._add(view, fields, view.target if view.part is not None else view.name)

    def _parameters_of(self, view: NodeView) -> int:
        if view.part is None:
            return 0
        count = sum(parameter.numel() for parameter in view.part.parameters())
        if count and id(view.part) in self._seen:
            self.shared.add(view.target)
        else:
            self.parameters += count
        self._seen.add(id(view.part))
        return int(count)

    def _parents(self, view: NodeView) -> tuple[str, ...]:
        return tuple(layer for parent in view.parents for layer in self._where[parent])

    def _add(self, view: NodeView, fields: Fields, name: str) -> None:
        if name in self.layers:
            name = view.name
        self.layers[name] = {**fields, "parents": list(self._parents(view))}
        self._where[view.name] = (name,)

    def _join_or_add(self, view: NodeView, key: str, value: str, into: set[str]) -> None:
        """Fuse a normalization or an activation into the layer before it, if nothing else uses that layer."""
        parents = self._parents(view)
        above = self.layers[parents[0]] if len(parents) == 1 else {}
        alone = all(len(parent.users) == 1 for parent in view.node.all_input_nodes)
        free = key not in above and "activation" not in above
        if alone and free and above.get("type") in into:
            above[key] = value
            self._where[view.name] = parents
        else:
            self._add(view, {"type": key, key: value}, view.target if view.part is not None else view.name)

    def _layer_fields(self, view: NodeView) -> Fields | None:
        """The fields of a module's or a function's layer; None for one that is not known."""
        part, size = view.part, view.size or ()
        match view.kind.replace("_", ""):
            case "conv2d" if part is not None:
                return {
                    "type": "conv", "filters": part.out_channels, "kernel": list(part.kernel_size),
                    "stride": list(part.stride), "padding": _padding(part.padding), "dilation": list(part.dilation),
                    "groups": part.groups, "bias": part.bias is not None,
                }  # fmt: skip
            case "convtranspose2d" if part is not None:
                return _deconv(view)
            case "linear" if part is not None:
                if len(size) != 2:
                    raise NetworkError(f"layer {view.target}: Linear outputs {view.size}; only vectors are supported")
                bias = part.bias is not None
                return {"type": "fc", "inputs": part.in_features, "features": part.out_features, "bias": bias}
            case "localresponsenorm":
                return {"type": "lrn", "size": part.size} if part is not None else None
            case "maxpool2d" | "avgpool2d" as kind:
                return _pool(kind.removesuffix("2d"), view)
            case "adaptiveavgpool2d" | "adaptivemaxpool2d" as kind:
                return {"type": "avgpool" if "avg" in kind else "maxpool", "grid": list(view.shape[:2])}
            case "flatten" | "view" | "reshape" if len(size) == 2:
                return {"type": "flatten"}
            case "dropout" | "dropout2d":
                return {"type": "dropout", "rate": float(view.argument(1, "p", 0.5))}
            case "softmax" | "logsoftmax":
                return {"type": "softmax"}
            case _:
                return self._function_fields(view, size) if part is None else None

    def _function_fields(self, view: NodeView, size: tuple[int, ...]) -> Fields | None:
        sizes = [self._views[parent].size for parent in view.parents]
        match view.kind:
            case kind if kind in ADDITIONS and len(sizes) == 2 and sizes[0] == sizes[1]:
                return {"type": "add"}
            case "cat" | "concat" | "concatenate":
                axis = view.argument(1, "dim", 0)
                if axis not in (1, 1 - len(size)):
                    raise NetworkError(f"layer {view.name}: only channels can be concatenated, not dim {axis}")
                return {"type": "concat"}
            case "mean" if sizes and len(sizes[0] or ()) == 4 and size[2:] in ((), (1, 1)):
                return {"type": "avgpool", "grid": 1}
            case _:
                return None


def _deconv(view: NodeView) -> Fields:
    part, shape = view.part, view.shape
    if part.groups != 1 or tuple(part.dilation) != (1, 1):
        raise NetworkError(f"layer {view.target}: ConvTranspose2d with groups or dilation is not supported")
    return {
        "type": "deconv", "filters": part.out_channels, "kernel": list(part.kernel_size), "stride": list(part.stride),
        "padding": _padding(part.padding), "size": list(shape[:2]), "bias": part.bias is not None,
    }  # fmt: skip


def _pool(kind: str, view: NodeView) -> Fields:
    kernel, stride, padding = (view.argument(i, n) for i, n in enumerate(WINDOW, start=1))
    stride = kernel if stride in (None, (), []) else stride
    return {
        "type": kind, "kernel": _list(kernel), "stride": _list(stride), "padding": _padding(padding or 0),
        "ceil": bool(view.argument(5 if kind == "maxpool" else 4, "ceil_mode")),
    }  # fmt: skip


def _padding(padding: Any) -> Any:
    return padding if isinstance(padding, str) or set(_list(padding)) != {0} else "valid"


def _list(value: Any) -> Any:
    return [value, value] if isinstance(value, int) else list(value)
