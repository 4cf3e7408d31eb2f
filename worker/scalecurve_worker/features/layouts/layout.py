"""A model spread over the dimensions of a layout: its stages on this rank, and what their parameters are called."""

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.torch_options import Recomputation
from scalecurve_worker.features.layouts.context import share_sequences
from scalecurve_worker.features.layouts.experts import OWN, experts_of, spread
from scalecurve_worker.features.layouts.meshes import Meshes
from scalecurve_worker.features.layouts.stages import LayerStage, TransformerStage, stages_of
from scalecurve_worker.features.layouts.tensor import split
from scalecurve_worker.torch.recomputation import recomputed
from scalecurve_worker.torch.sharding import computes_in_bf16

_EMBEDDING = "tokens.weight"


class LaidOut:
    """This rank's stages of a model, ready to train.

    ``names`` has, for each parameter of ``module``, what it is called in the model itself. ``autocast`` is false where
    FSDP gathers parameters in the narrower type by itself.
    """

    def __init__(self, model: nn.Module, meshes: Meshes, workload: TorchWorkload, length: int) -> None:
        degrees, place = meshes.degrees, meshes.place
        layout = workload.layout or Parallelism()
        self.meshes = meshes
        self.stage_count = degrees.pipeline * layout.stages_per_worker
        own = range(place[Dimension.pipeline], self.stage_count, degrees.pipeline)
        local = length // degrees.context
        narrow = computes_in_bf16(model, workload.precision)
        originals = {id(parameter): name for name, parameter in model.named_parameters()}
        self.stages = stages_of(model, own, self.stage_count, place[Dimension.context] * local, local)
        self.names: dict[str, str] = {}
        self.indices = list(own)
        self.module = nn.ModuleList(self.stages)
        for name, parameter in self.module.named_parameters():
            self.names[name] = originals.get(id(parameter), _EMBEDDING)
        whole_logits = workload.options.label_smoothing > 0 or self._vocabulary(model) % degrees.tensor > 0
        self.split_loss = degrees.tensor > 1 and not whole_logits
        for stage in self.stages:
            if isinstance(stage, TransformerStage):
                if degrees.tensor > 1:
                    split(stage, meshes.dense["tensor"], whole_logits=whole_logits)
                if degrees.expert > 1:
                    spread(stage, meshes.axes["expert"])
                if degrees.context > 1:
                    share_sequences(stage, meshes.axes["context"])
                _recompute(stage, workload.options.activation_checkpointing)
            if workload.options.compile:
                _compile(stage)
        self.sharded = degrees.data * degrees.context > 1
        self.autocast = not (narrow and self.sharded)
        if self.sharded:
            for stage in self.stages:
                _shard(stage, meshes, torch.bfloat16 if narrow else None)

    @property
    def first(self) -> bool:
        return 0 in self.indices

    @property
    def last(self) -> bool:
        return self.stage_count - 1 in self.indices

    @property
    def has_tied_ends(self) -> bool:
        """Whether embedding and output layer are one parameter of the model, on two workers of the pipeline."""
        stages = [stage for stage in self.stages if isinstance(stage, TransformerStage)]
        return self.meshes.degrees.pipeline > 1 and any(stage.tied for stage in stages)

    def embedding(self) -> Tensor | None:
        """Return this rank's copy of a parameter that both ends of the pipeline hold; None where it has no copy."""
        for stage in self.stages:
            if isinstance(stage, TransformerStage):
                if stage.tokens is not None:
                    return stage.tokens.weight
                if stage.head is not None:
                    return stage.head.weight
        return None

    def name_of(self, name: str) -> str:
        """Return what a parameter of ``module`` is called in the model."""
        return self.names[name.replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", "")]

    def experts(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of which this rank has its experts' part; none where every rank has all experts."""
        if self.meshes.degrees.expert > 1:
            yield from (each for stage in self.stages for experts in experts_of(stage) for each in experts.parameters())

    def whole(self, name: str, tensor: Tensor) -> Tensor:
        """Return in full a tensor that belongs to the model's parameter of this name.

        Collective where ranks hold parts of it.
        """
        own = full(tensor)
        if self.meshes.degrees.expert == 1 or OWN not in f".{name}":
            return own
        parts = [torch.empty_like(own) for _ in range(self.meshes.degrees.expert)]
        dist.all_gather(parts, own.contiguous(), group=self.meshes.group(Dimension.expert))
        return torch.cat(parts)

    def counted(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield parameters by their names in the model, without the second copy of a tied embedding."""
        for name, parameter in self.module.named_parameters():
            if not (self.has_tied_ends and name.endswith("head.weight")):
                yield self.name_of(name), parameter

    def own_elements(self) -> int:
        """Count the elements that this rank holds as the first of those that hold them: they add up to the model."""
        place = self.meshes.place
        outside = {Dimension.replicate, Dimension.expert, Dimension.shard, Dimension.context, Dimension.tensor}
        elements = 0
        for _, parameter in self.counted():
            if not isinstance(parameter, DTensor):
                elements += parameter.numel() if not any(place[each] for each in outside) else 0
                continue
            mesh = parameter.device_mesh
            placements = zip(mesh.get_coordinate() or (), parameter.placements, strict=True)
            named = dict(zip(mesh.mesh_dim_names or (), placements, strict=True))
            first = all(not placement.is_replicate() or not index for index, placement in named.values())
            missing = not self.sharded and any(place[each] for each in outside - {Dimension.tensor})
            if "tensor" not in named and place[Dimension.tensor]:
                missing = True
            elements += parameter.to_local().numel() if first and not missing else 0
        return elements

    @staticmethod
    def _vocabulary(model: nn.Module) -> int:
        tokens = getattr(model, "tokens", None)
        return int(tokens.num_embeddings) if isinstance(tokens, nn.Embedding) else 1


def _recompute(stage: TransformerStage, mode: Recomputation) -> None:
    """Activation checkpointing of a stage's blocks, in place."""
    holder = nn.Module()
    holder.blocks = nn.ModuleList(stage.blocks.values())
    recomputed(holder, mode)
    for name, block in zip(list(stage.blocks), holder.blocks, strict=True):
        stage.blocks[name] = block


def _compile(stage: nn.Module) -> None:
    """Compile a stage's blocks or layers, in place: each by itself, as the hooks of FSDP stand between them."""
    layers = stage.blocks if isinstance(stage, TransformerStage) else stage
    for name, layer in list(layers.named_children()):
        if any(True for _ in layer.parameters()):
            layers._modules[name] = cast(nn.Module, torch.compile(layer))


def _shard(stage: nn.Module, meshes: Meshes, narrow: torch.dtype | None) -> None:
    """FSDP2 on each block and on the stage, as torchtitan does: shards over ``sharing``, replicas over ``copies``."""
    options: dict[str, Any] = {
        "mesh": meshes.data,
        "mp_policy": MixedPrecisionPolicy(param_dtype=narrow, reduce_dtype=torch.float32),
    }
    if isinstance(stage, TransformerStage):
        for experts in experts_of(stage) if meshes.degrees.expert > 1 else ():
            fully_shard(experts, **{**options, "mesh": meshes.experts})
        for block in stage.blocks.values():
            fully_shard(block, **options)
    elif isinstance(stage, LayerStage):
        for parameter in stage.parameters():
            parameter.data = parameter.data.contiguous()
        for layer in stage:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, **options)
    fully_shard(stage, **options)


def full(tensor: Tensor) -> Tensor:
    """Return a tensor of the model in full; collective where ranks hold parts of it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
