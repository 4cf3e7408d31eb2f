"""Tensor parallelism with sequence parallelism: M. Shoeybi et al., arXiv:1909.08053, V. Korthikanti, arXiv:2205.05198.

Columns of the first and rows of the second matrix of each half of a block; between the halves every worker has its part
of the sequence. Embedding and output layer are split over the vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from scalecurve_worker.features.layouts.stages import TransformerStage
from scalecurve_worker.torch.models.transformer import GPT2Block

_FIRST = ("query", "key", "value", "gate", "up")
_SECOND = ("attention_out", "down")


class ThreeProjections(nn.Module):
    """GPT-2's one matrix for queries, keys and values as three, each of which is split by heads."""

    def __init__(self, joint: nn.Linear) -> None:
        super().__init__()
        weights, biases = joint.weight.detach().chunk(3), joint.bias.detach().chunk(3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            layer = nn.Linear(joint.in_features, joint.in_features, device="meta")
            layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([layer(x) for layer in self.children()], dim=-1)


def separate(model: nn.Module) -> None:
    """Give every GPT-2 block of a model three projections, in place: the same function of the same numbers."""
    for block in model.modules():
        if isinstance(block, GPT2Block) and isinstance(block.qkv, nn.Linear):
            block.qkv = ThreeProjections(block.qkv)  # type: ignore[assignment]


def split(stage: TransformerStage, mesh: DeviceMesh, *, whole_logits: bool) -> None:
    """Split a stage's layers over the mesh's workers, in place; ``whole_logits`` gathers the vocabulary's parts."""
    for block in stage.blocks.values():
        parallelize_module(block, mesh, _block_plan(block))
        for name in ("norm_attention", "norm_feed_forward"):
            block.get_submodule(name).register_forward_hook(_gather_output)  # once for all the matrices that read it
        if isinstance(block, GPT2Block):
            block.heads //= mesh.size()
    rows = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    logits = Replicate() if whole_logits else Shard(-1)
    head = ColwiseParallel(input_layouts=Shard(1), output_layouts=logits, use_local_output=whole_logits)
    plan = {"tokens": rows, "positions": rows, "norm": SequenceParallel(), "head": head}
    parallelize_module(stage, mesh, {name: style for name, style in plan.items() if getattr(stage, name) is not None})
    if stage.tied and stage.tokens is not None and stage.head is not None:
        stage.head.weight = stage.tokens.weight


def _block_plan(block: nn.Module) -> dict[str, ParallelStyle]:
    plan: dict[str, ParallelStyle] = {"norm_attention": SequenceParallel(), "norm_feed_forward": SequenceParallel()}
    for name, module in block.named_modules():
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in _FIRST:
            plan[name] = ColwiseParallel()
        elif isinstance(module, nn.Linear) and name in _SECOND:
            plan[name] = RowwiseParallel(output_layouts=Shard(1))
    return plan


def _gather_output(module: nn.Module, inputs: Any, output: DTensor) -> DTensor:
    return output.redistribute(placements=[Replicate()])
