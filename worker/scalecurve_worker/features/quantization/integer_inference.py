"""Integer inference (section 2.2 of the paper), emulated in float64, which holds every sum exactly.

A product of two numbers of b bits needs 2b bits and a layer adds up some thousands of them: at 16 bits that is below
2^53. What int32 accumulators would give at up to 8 bits comes out bit for bit, in any order of summation.
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn

from scalecurve_worker.features.quantization.calibration import layers_of, settled
from scalecurve_worker.features.quantization.folding import Operation, kind_of

Scheme = Literal["tensor", "channel"]

# Least range of a channel, as a share of its tensor's: a dead channel's step would make its bias overflow.
SMALLEST_CHANNEL = 2.0**-16
NOTHING = 2.0**-126  # what a float32 cannot hold in full is taken for zero


_WITH_GRID = (Operation.start, Operation.layer, Operation.sum, Operation.joined)


@dataclass(frozen=True)
class Grid:
    """Whole numbers ``lowest`` .. ``highest``, each worth ``step``: a scalar, or one a channel shaped to broadcast.

    Zero is on every grid. A number between the ends is at most half a step from its place; one beyond goes to an end.
    """

    step: Tensor
    lowest: int
    highest: int

    def whole(self, x: Tensor) -> Tensor:
        """Return the place of each number, a whole number in float64; ties go to the even one."""
        return torch.round(x.double() / self.step).clamp_(self.lowest, self.highest)

    def real(self, q: Tensor) -> Tensor:
        return q.double() * self.step

    def nearest(self, x: Tensor) -> Tensor:
        return self.real(self.whole(x))


def symmetric_grid(limit: Tensor, bits: int) -> Grid:
    """Make a grid of 2^bits - 1 places from -``limit`` to ``limit`` (a float64 tensor, all above zero)."""
    highest = 2 ** (bits - 1) - 1
    return Grid(limit / highest, -highest, highest)


def activation_grid(low: float, high: float, bits: int, device: torch.device) -> Grid:
    """Make a grid for what was seen from ``low`` to ``high``; without negatives all 2^bits places are >= 0."""
    reach = max(-low, high)
    limit = torch.tensor(reach if reach > NOTHING else 1.0, dtype=torch.float64, device=device)
    if low < 0:
        return symmetric_grid(limit, bits)
    highest = 2**bits - 1
    return Grid(limit / highest, 0, highest)


def weight_grid(weight: Tensor, bits: int, scheme: Scheme) -> Grid:
    """Make a grid with one step for the tensor, or one for each output channel (the first axis)."""
    size = weight.detach().double().abs()
    limits = size.max()
    limits = torch.where(limits > 0, limits, torch.ones_like(limits))
    if scheme == "tensor":
        return symmetric_grid(limits, bits)
    limit = size.flatten(1).amax(1).maximum(limits * SMALLEST_CHANNEL)
    return symmetric_grid(limit.view(-1, *[1] * (weight.dim() - 1)), bits)


def round_weights(graph: fx.GraphModule, scheme: Scheme, bits: int) -> fx.GraphModule:
    """Return a copy that computes in float32 with weights that lie on the grid."""
    out = copy.deepcopy(graph)
    for node in layers_of(out):
        weight = out.get_parameter(f"{node.target}.weight")
        weight.data.copy_(weight_grid(weight, bits, scheme).nearest(weight))
    return out


@dataclass(frozen=True)
class _Layer:
    """Layer with integer weights; one accumulator unit is ``step``. ``bias`` is integer too, or real."""

    sums: nn.Module
    step: Tensor
    bias: Tensor | None
    whole_bias: bool


class Integers(fx.Interpreter):
    """A folded network on whole numbers: ``run`` takes real inputs and gives real logits (float64).

    A layer's accumulator is worth the step of its input times that of its weights, and so is its bias (section 2.4);
    with ``whole_bias`` off the bias stays real. It is rescaled to the output's step by one multiplication and one
    rounding, after which ReLU is the end of the grid. Accumulators of the last layer are the logits. Sums and joins
    bring their terms to one step (appendix A.2); pooling rounds its mean.
    """

    def __init__(
        self, graph: fx.GraphModule, ranges: dict[str, tuple[float, float]], scheme: Scheme, bits: int, whole_bias: bool
    ) -> None:
        super().__init__(graph)
        self.kinds = {node: kind_of(graph, node) for node in graph.graph.nodes}
        self.grids: dict[fx.Node, Grid] = {}
        self.layers: dict[fx.Node, _Layer] = {}
        device = next(graph.parameters()).device
        for node, kind in self.kinds.items():
            if kind in _WITH_GRID:
                self.grids[node] = activation_grid(*ranges[settled(graph, node).name], bits, device)
            elif kind is not Operation.end:
                self.grids[node] = self.grids[_source(node)]
            if kind is Operation.layer:
                layer = graph.get_submodule(str(node.target))
                self.layers[node] = _layer(layer, self.grids[_source(node)], scheme, bits, whole_bias)

    def run_node(self, n: fx.Node) -> Any:
        match self.kinds[n]:
            case Operation.start:
                return self.grids[n].whole(super().run_node(n))
            case Operation.layer:
                sums = self._accumulators(self.layers[n], self.env[_source(n)])
                return sums if self._gives_logits(n) else self.grids[n].whole(sums)
            case Operation.sum:
                terms = [arg for arg in n.args if isinstance(arg, fx.Node)]
                return self.grids[n].whole(sum((self._real(term) for term in terms[1:]), self._real(terms[0])))
            case Operation.joined:
                assert isinstance(n.args[0], (list, tuple))
                real = [self._real(part) for part in n.args[0] if isinstance(part, fx.Node)]
                places = [self.grids[n].whole(part) for part in real]
                return super().call_function(torch.cat, (places, *n.args[1:]), dict(n.kwargs))
            case Operation.mean:
                return torch.round(super().run_node(n))
            case Operation.end:
                source = _source(n)
                return self.env[source] if self._gives_logits(source) else self._real(source)
            case _:
                return super().run_node(n)

    @property
    def activation_grids(self) -> int:
        return sum(kind in _WITH_GRID and not self._gives_logits(node) for node, kind in self.kinds.items())

    def _accumulators(self, layer: _Layer, q: Tensor) -> Tensor:
        # Rounding undoes what a transform inside a convolution's kernel may leave; a sum of whole numbers is whole.
        sums = torch.round(layer.sums(q))
        if layer.bias is None:
            return sums * layer.step
        return (sums + layer.bias) * layer.step if layer.whole_bias else sums * layer.step + layer.bias

    def _real(self, node: fx.Node) -> Tensor:
        return self.grids[node].real(self.env[node])

    def _gives_logits(self, node: fx.Node) -> bool:
        return self.kinds[node] is Operation.layer and all(self.kinds[user] is Operation.end for user in node.users)


def _source(node: fx.Node) -> fx.Node:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return source


def _layer(layer: nn.Module, inputs: Grid, scheme: Scheme, bits: int, whole_bias: bool) -> _Layer:
    weight = layer.get_parameter("weight").detach()
    bias = layer.bias
    grid = weight_grid(weight, bits, scheme)
    sums = copy.deepcopy(layer).double().requires_grad_(False)
    sums.get_parameter("weight").copy_(grid.whole(weight))
    sums.register_parameter("bias", None)
    # Channels are the last axis of a linear layer's output, and the third from the end of a convolution's.
    wide = (-1, 1, 1) if weight.dim() == 4 else (-1,)
    step = inputs.step * (grid.step if grid.step.dim() == 0 else grid.step.flatten()).expand(weight.shape[0])
    if bias is None:
        return _Layer(sums, step.view(wide), None, False)
    assert isinstance(bias, Tensor)
    real = bias.detach().double()
    return _Layer(sums, step.view(wide), (torch.round(real / step) if whole_bias else real).view(wide), whole_bias)
