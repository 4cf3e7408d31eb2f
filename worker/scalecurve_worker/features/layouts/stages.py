"""A model cut into stages: the consecutive parts that a pipeline's workers hold, or all of it in one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch.models.transformer import GPT2, Llama, rotary_tables


class TransformerStage(nn.Module):
    """Consecutive blocks of a GPT-2 or Llama, with the embedding before the first and the logits after the last.

    Parameters keep the names that they have in the model; the output layer, which models apply without a module, is
    ``head``. ``begin`` and ``length`` are the part of each sequence that this worker's attention has.
    """

    def __init__(self, model: GPT2 | Llama, blocks: range, begin: int, length: int) -> None:
        super().__init__()
        first, last = blocks.start == 0, blocks.stop == len(model.blocks)
        self.begin, self.length = begin, length
        self.tokens = model.tokens if first else None
        self.positions = model.positions if first and isinstance(model, GPT2) else None
        self.blocks = nn.ModuleDict({str(index): model.blocks[index] for index in blocks})
        self.norm = model.norm if last else None
        self.head: nn.Linear | None = None
        own = model.head if isinstance(model, Llama) else None
        if last:
            self.head = own or _output(model.tokens.weight, alone=not first)
        self.rotary = (model.size.width // model.size.heads, model.size.theta) if isinstance(model, Llama) else None
        self.tied = own is None

    def forward(self, x: Tensor) -> Tensor:
        if self.tokens is not None:
            x = self.tokens(x)
        if self.positions is not None:
            x = x + self.positions(torch.arange(self.begin, self.begin + self.length, device=x.device)[None])
        tables = self._tables(x.device)
        for block in self.blocks.values():
            x = block(x, *tables)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))

    def _tables(self, device: torch.device) -> tuple[Tensor, ...]:
        if self.rotary is None:
            return ()
        tables = rotary_tables(self.begin + self.length, *self.rotary, device)
        return tuple(each[self.begin :] for each in tables)


class LayerStage(nn.Sequential):
    """Consecutive layers of a convolutional network (J. Dean et al., "Large scale distributed deep networks", 2012)."""


def _output(weight: Tensor, *, alone: bool) -> nn.Linear:
    """The embedding as output layer: the same parameter, or a copy of it on the last of several stages."""
    head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    head.weight = nn.Parameter(weight.detach().clone()) if alone else cast(nn.Parameter, weight)
    return head


def ranges(parts: int, stages: int) -> list[range]:
    """Return consecutive parts for each stage, as even as possible; the first stages take the remainder."""
    least, more = divmod(parts, stages)
    sizes = [least + (stage < more) for stage in range(stages)]
    starts = [sum(sizes[:stage]) for stage in range(stages)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def stages_of(model: nn.Module, indices: Sequence[int], count: int, begin: int, length: int) -> list[nn.Module]:
    """Return the stages with these indices, of ``count``.

    Raises:
        WorkloadError: the model has fewer layers than stages, or cannot be cut.
    """
    if isinstance(model, GPT2 | Llama):
        cuts = ranges(len(model.blocks), count)
        return [TransformerStage(model, cuts[index], begin, length) for index in indices]
    if count == 1:
        return [LayerStage(model)]
    layers = layers_of(model)
    if len(layers) < count:
        raise WorkloadError(f"workload.parallelism.pipeline: {type(model).__name__} has {len(layers)} layers to cut")
    cuts = cuts_by_parameters(layers, count)
    return [LayerStage(*(layers[layer] for layer in cuts[index])) for index in indices]


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a network that runs them one after another.

    Raises:
        WorkloadError: its forward pass is more than that.
    """
    if not isinstance(model, nn.Sequential):
        raise WorkloadError(
            f"workload.parallelism.pipeline: {type(model).__name__} is not a sequence of layers; use pipeline: 1"
        )
    layers: list[nn.Module] = []
    for child in model:
        layers += layers_of(child) if type(child) is nn.Sequential else [child]
    return layers


def cuts_by_parameters(layers: Sequence[nn.Module], stages: int) -> list[range]:
    """Cut evenly by the number of layers that have parameters; the others stay with the layer before them."""
    weighted = [index for index, layer in enumerate(layers) if any(True for _ in layer.parameters())]
    if len(weighted) < stages:
        return ranges(len(layers), stages)
    starts = [0, *(weighted[part.start] for part in ranges(len(weighted), stages)[1:]), len(layers)]
    return [range(begin, end) for begin, end in pairwise(starts)]
