"""FSDP2 over a model's blocks, singly or grouped; the rest goes with the root."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from scalecurve_api.programs.workload import Precision

BLOCKS = ("blocks", "stages")


@dataclass(frozen=True)
class Sharded:
    """A model whose parameters are shared out.

    ``gathered`` has each group's elements and how often a step gathers them: blocks for the forward pass and again
    for the backward pass, the root once.
    """

    module: nn.Module
    parameter_type: torch.dtype
    gathered: list[tuple[int, int]]

    @property
    def wrapper(self) -> str | None:
        """The class that torch mixed into the model's own; None where it did not."""
        return FSDPModule.__name__ if isinstance(self.module, FSDPModule) else None

    @property
    def layout(self) -> dict[str, object]:
        return {"fsdpGroups": len(self.gathered)}

    def no_sync(self) -> AbstractContextManager[None]:
        """Gradients of a micro-batch are added up unreduced; parameters are gathered as ever."""
        return _unreduced(self.module)


def shard(model: nn.Module, device: torch.device, precision: Precision, group_mb: float) -> Sharded:
    """Share the model out over all ranks of the group, consecutive blocks together up to ``group_mb`` MiB.

    A group costs the host its own hooks and collectives in each step, however small it is: with GPT-2 large, block by
    block, four H200s waited for Python through 40 % of a step. A large one is less hidden behind computing.

    bf16 parameters are gathered as bf16, half the bytes, where the model has no batch norm, whose weights must stay
    fp32 beside its fp32 statistics. Gradients are reduced in fp32 either way, as under DDP.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    narrow = precision is Precision.bf16 and not any(
        isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()
    )
    dtype = torch.bfloat16 if narrow else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=dtype if narrow else None, reduce_dtype=torch.float32)
    for parameter in model.parameters():
        # Shares are cut along the first dimension, and torch refuses strides of channels_last; activations keep them.
        parameter.data = parameter.data.contiguous()
    total = _elements(model)
    gathered: list[tuple[int, int]] = []
    for group in _groups(list(blocks_of(model)), group_mb * 2**20 / dtype.itemsize):
        fully_shard(group if len(group) > 1 else group[0], mesh=mesh, mp_policy=policy)
        gathered.append((sum(map(_elements, group)), 2))
    fully_shard(model, mesh=mesh, mp_policy=policy)
    gathered.append((total - sum(elements for elements, _ in gathered), 1))
    return Sharded(model, dtype, gathered)


def blocks_of(model: nn.Module) -> Iterator[nn.Module]:
    """The repeated parts of a model, in order; none where it is not made of such."""
    for name in BLOCKS:
        parts = getattr(model, name, None)
        if isinstance(parts, nn.Sequential | nn.ModuleList):
            yield from parts


def _groups(blocks: Sequence[nn.Module], most: float) -> Iterator[list[nn.Module]]:
    """Consecutive blocks with parameters, together while they have no more than ``most`` elements."""
    group: list[nn.Module] = []
    for block in filter(_elements, blocks):
        if group and sum(map(_elements, group)) + _elements(block) > most:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _elements(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def local_elements(model: nn.Module) -> int | None:
    """Elements of parameters that this rank holds; None where every rank holds them all."""
    if not isinstance(model, FSDPModule):
        return None
    return sum(_local(parameter) for parameter in model.parameters())


def _local(parameter: nn.Parameter) -> int:
    to_local = getattr(parameter, "to_local", None)
    return int(to_local().numel()) if to_local is not None else parameter.numel()


@contextmanager
def _unreduced(module: nn.Module) -> Iterator[None]:
    assert isinstance(module, FSDPModule)
    module.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        module.set_requires_gradient_sync(True)
