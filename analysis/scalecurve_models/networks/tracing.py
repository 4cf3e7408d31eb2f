"""Trace a ``torch.nn.Module`` into a network. The only module here that imports torch, and only when called.

The graph comes from ``torch.fx``, shapes from a pass over fake tensors, without memory or arithmetic. A batch
normalization or an activation that is the only user of a convolution, a linear layer or a sum is fused into it, as in
our files. Anything with parameters that is not a layer of a CNN is refused, never ignored.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from scalecurve_models.networks.graph import Network, parse_layer
from scalecurve_models.networks.layer import NetworkError, Shape, spell
from scalecurve_models.networks.traced_nodes import GraphReader, NodeView

if TYPE_CHECKING:
    from torch import fx, nn


def trace(module: nn.Module, shape: Shape, name: str | None = None) -> Network:
    """The network of a module for a sample of ``shape`` (height, width, channels), in evaluation mode.

    The module is not changed. Raises NetworkError if it cannot be traced or is not a CNN.
    """
    from torch import nn

    if not isinstance(module, nn.Module):
        raise NetworkError(f"{module!r}: expected a torch.nn.Module")
    reader = GraphReader()
    for view in _views(_trace_graph(module, shape)):
        reader.take(view)
    learned = sum(parameter.numel() for parameter in module.parameters())
    notes = [f"Traced from {type(module).__module__}.{type(module).__name__} in evaluation mode.", *reader.notes()]
    if reader.parameters != learned:
        notes.append(f"{learned - reader.parameters:,} of {learned:,} parameters are unused in evaluation mode.")
    layers = tuple(parse_layer({**fields, "name": key}) for key, fields in reader.layers.items())
    return Network(name or type(module).__name__, layers, source="torch.fx", notes=tuple(notes))


def trace_reference(reference: str, shape: Shape) -> Network:
    """Trace ``package.module:name``, a module or a function without arguments that makes one. Raises NetworkError."""
    path, _, attribute = reference.partition(":")
    try:
        module = getattr(importlib.import_module(path), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise NetworkError(f"{reference}: cannot be imported: {error}") from error
    from torch import nn

    if not isinstance(module, nn.Module):
        if not callable(module):
            raise NetworkError(f"{reference}: neither a torch.nn.Module nor a function that makes one")
        try:
            module = module()
        except TypeError as error:
            raise NetworkError(f"{reference}: cannot be called without arguments: {error}") from error
    return trace(module, shape, name=attribute)


def _trace_graph(module: nn.Module, shape: Shape) -> fx.GraphModule:
    import torch
    from torch import fx
    from torch._subclasses import FakeTensorMode
    from torch.fx.passes.shape_prop import ShapeProp

    if len(shape) != 3:
        raise NetworkError(f"input {spell(shape)}: expected height x width x channels")
    first = next(module.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    fake = None if device.type == "meta" else FakeTensorMode()
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        graph = fx.symbolic_trace(module)
        sample = torch.empty(1, shape[2], shape[0], shape[1], device="meta")
        if fake is not None:
            with fake:
                sample = torch.empty(1, shape[2], shape[0], shape[1], device=device)
        ShapeProp(graph, fake_mode=fake).propagate(sample)
    except Exception as error:
        # Tracing runs the user's code on fake tensors: it may raise anything.
        reason = " ".join(str(error).split())[:300]
        raise NetworkError(f"{type(module).__name__} cannot be traced: {reason or type(error).__name__}") from error
    finally:
        for part, training in modes.items():
            part.training = training
    return graph


def _views(graph: fx.GraphModule) -> list[NodeView]:
    parts = dict(graph.named_modules())
    views = []
    for node in graph.graph.nodes:
        part = parts[node.target] if node.op == "call_module" else None
        name = str(node.target) if node.op in ("call_module", "call_method", "get_attr") else node.name
        function = getattr(node.target, "__name__", node.name) if node.op == "call_function" else name
        size = getattr(node.meta.get("tensor_meta"), "shape", None)
        target = str(node.target) if part is not None else function.lower()
        views.append(NodeView(node, target, part, None if size is None else tuple(int(n) for n in size)))
    return views
