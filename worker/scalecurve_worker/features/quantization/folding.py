"""A trained network as a graph of integer operations, with batch norm folded into the layer before it."""

import copy
import operator
from collections import Counter
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from scalecurve_worker.process.failure import WorkloadError


class Operation(StrEnum):
    """What a node does to whole numbers."""

    start = "start"
    layer = "layer"
    rectify = "rectify"
    sum = "sum"
    joined = "joined"
    mean = "mean"
    same = "same"
    end = "end"


_MODULES: dict[type[nn.Module], Operation] = {
    **dict.fromkeys((nn.Conv2d, nn.Linear), Operation.layer),
    nn.ReLU: Operation.rectify,
    **dict.fromkeys((nn.AvgPool2d, nn.AdaptiveAvgPool2d), Operation.mean),
    **dict.fromkeys((nn.MaxPool2d, nn.Flatten, nn.Dropout, nn.Identity), Operation.same),
}
_FUNCTIONS: dict[object, Operation] = {
    **dict.fromkeys((F.relu, torch.relu), Operation.rectify),
    **dict.fromkeys((operator.add, torch.add), Operation.sum),
    torch.cat: Operation.joined,
    **dict.fromkeys((torch.flatten, operator.getitem, F.pad), Operation.same),
}
_METHODS = {
    **dict.fromkeys(("add", "add_"), Operation.sum),
    **dict.fromkeys(("relu", "relu_"), Operation.rectify),
    "flatten": Operation.same,
}


def kind_of(graph: fx.GraphModule, node: fx.Node) -> Operation:
    """Return the operation that the node performs."""
    match node.op:
        case "placeholder":
            kind: Operation | None = Operation.start
        case "output":
            kind = Operation.end
        case "call_module":
            kind = _MODULES.get(type(graph.get_submodule(str(node.target))))
        case "call_function" | "call_method":
            kind = _FUNCTIONS.get(node.target) or _METHODS.get(str(node.target))
        case _:
            kind = None
    if kind is None or not _plain(kind, node):
        raise _refusal(f"{_name(graph, node)} has no integer form")
    return kind


def folded(model: nn.Module) -> fx.GraphModule:
    """Return a traced float32 copy in evaluation mode with every batch norm folded; the model stays as it is."""
    plain = copy.deepcopy(model).eval().float()
    try:
        graph = fx.symbolic_trace(plain)
    except Exception as error:  # whatever a forward pass raises when it is given no numbers
        raise _refusal(f"its forward pass cannot be traced ({' '.join(str(error).split())[:120]})") from error
    for node in list(graph.graph.nodes):
        if node.op == "call_module" and isinstance(graph.get_submodule(str(node.target)), _BatchNorm):
            _fold(graph, node)
    graph.graph.lint()
    graph.delete_all_unused_submodules()
    graph.recompile()
    _check(graph)
    return graph


def check_quantizable(model: nn.Module) -> None:
    """Refuse before anything is trained what :func:`folded` would refuse after it; no number is worked out."""
    folded(copy.deepcopy(model).to("meta"))


def _fold(graph: fx.GraphModule, node: fx.Node) -> None:
    norm = graph.get_submodule(str(node.target))
    source = node.args[0]
    assert isinstance(norm, _BatchNorm)
    layer = (
        graph.get_submodule(str(source.target)) if isinstance(source, fx.Node) and source.op == "call_module" else None
    )
    if not isinstance(layer, (nn.Conv2d, nn.Linear)) or norm.running_mean is None:
        raise _refusal(f"{_name(graph, node)} does not follow a layer that it can be folded into")
    assert isinstance(source, fx.Node)
    if len(source.users) > 1:
        raise _refusal(f"{source.target}, which {_name(graph, node)} would be folded into, is used elsewhere too")
    if norm.weight is None:  # affine=False
        norm.weight, norm.bias = (nn.Parameter(f(norm.running_mean)) for f in (torch.ones_like, torch.zeros_like))
    fused = fuse_conv_bn_eval(layer, norm) if isinstance(layer, nn.Conv2d) else fuse_linear_bn_eval(layer, norm)
    graph.set_submodule(str(source.target), fused)
    node.replace_all_uses_with(source)
    graph.graph.erase_node(node)


def _check(graph: fx.GraphModule) -> None:
    kinds = {node: kind_of(graph, node) for node in graph.graph.nodes}
    layers = Counter(str(node.target) for node, kind in kinds.items() if kind is Operation.layer)
    if not layers:
        raise _refusal("it has no layer with weights")
    for name, times in layers.items():
        if times > 1:
            raise _refusal(f"layer {name} is used {times} times")
    if list(kinds.values()).count(Operation.start) != 1:
        raise _refusal("it has more than one input")


def _plain(kind: Operation, node: fx.Node) -> bool:
    """Whether the arguments are such that whole numbers stay whole and on one grid."""
    match kind:
        case Operation.sum:
            first = node.args[0]
            alone = not str(node.target).endswith("_") or (isinstance(first, fx.Node) and len(first.users) == 1)
            return len(node.args) == 2 and all(isinstance(arg, fx.Node) for arg in node.args) and alone
        case Operation.end:
            return isinstance(node.args[0], fx.Node)
        case Operation.same if node.target is F.pad:
            return bool(node.kwargs.get("mode", "constant") == "constant" and node.kwargs.get("value") in (None, 0))
        case _:
            return True


def _name(graph: fx.GraphModule, node: fx.Node) -> str:
    if node.op == "call_module":
        return f"{node.target} ({type(graph.get_submodule(str(node.target))).__name__})"
    return str(getattr(node.target, "__name__", node.target))


def _refusal(why: str) -> WorkloadError:
    return WorkloadError(
        f"measure.accuracy.quantization: {why}; it goes with networks of convolutions, linear layers, batch norm, "
        "ReLU, pooling and sums"
    )
