"""FSDP2 over a model's blocks, singly or grouped; the rest goes with the root."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from scalecurve_api.programs.workload import Precision


class Sharded(NamedTuple):
    """What :func:`shard` made: the type that parameters are gathered in, and the elements of each group.

    A block's group is gathered for the forward pass and again for the backward pass, the root's, the last, once.
    """

    dtype: torch.dtype
    groups: list[int]

    @property
    def gathered(self) -> list[tuple[int, int]]:
        """Elements of each group, and how often a step gathers them."""
        return [*((elements, 2) for elements in self.groups[:-1]), (self.groups[-1], 1)]


def computes_in_bf16(model: nn.Module, precision: Precision) -> bool:
    """Tell whether parameters are gathered as bf16, and so computed with: then there is no autocast.

    Not where the model has batch norm, whose weights must stay fp32 beside its fp32 statistics: it runs under autocast.
    """
    norms = (module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm))
    return precision is Precision.bf16 and not any(norms)


def shard(model: nn.Module, mesh: DeviceMesh, precision: Precision, group_mb: float) -> Sharded:
    """Share the model out over the mesh's last dimension, block by block, and the rest with the root.

    As torch's tutorial of FSDP2 and torchtitan do it: ``fully_shard`` on each block and on the model, bf16 parameters
    by ``MixedPrecisionPolicy``, gradients reduced in fp32. A mesh of two dimensions has replicas in the first (HSDP).
    With ``group_mb`` consecutive blocks are gathered together up to so many MiB: each group costs the host its own
    hooks and collectives, and a large one is less hidden behind computing.
    """
    dtype = torch.bfloat16 if computes_in_bf16(model, precision) else torch.float32
    narrow = None if dtype is torch.float32 else dtype
    policy = MixedPrecisionPolicy(param_dtype=narrow, reduce_dtype=torch.float32)
    for parameter in model.parameters():
        # Shares are cut along the first dimension, and torch refuses strides of channels_last; activations keep them.
        parameter.data = parameter.data.contiguous()
    total = _elements(model)
    groups: list[int] = []
    for group in _groups(list(blocks_of(model)), group_mb * 2**20 / dtype.itemsize):
        fully_shard(group if len(group) > 1 else group[0], mesh=mesh, mp_policy=policy)
        groups.append(sum(map(_elements, group)))
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return Sharded(dtype, [*groups, total - sum(groups)])


def mesh_of(device: torch.device, workers: int, shard: int) -> DeviceMesh:
    """Arrange all workers in one dimension; or copies of the model by the ``shard`` workers of each (HSDP)."""
    if not shard:
        return init_device_mesh(device.type, (workers,))
    return init_device_mesh(device.type, (workers // shard, shard), mesh_dim_names=("replicate", "shard"))


def containers_of(model: nn.Module) -> Iterator[nn.Sequential | nn.ModuleList]:
    """Yield the containers of the model's repeated blocks, if it has any."""
    for name in ("blocks", "stages"):
        parts = getattr(model, name, None)
        if isinstance(parts, nn.Sequential | nn.ModuleList):
            yield parts


def blocks_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the repeated parts of a model, in order."""
    for parts in containers_of(model):
        yield from parts


def _groups(blocks: Sequence[nn.Module], most: float) -> Iterator[list[nn.Module]]:
    """Consecutive blocks with parameters, together while they have no more than ``most`` elements; 0: one by one."""
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
    """Count the elements of parameters that this rank holds; None where every rank holds them all."""
    if isinstance(model, FSDPModule):
        local = (each.to_local() if isinstance(each, DTensor) else each for each in model.parameters())
        return sum(each.numel() for each in local)
    shares = [each for each in model.parameters() if hasattr(each, "ds_tensor")]  # DeepSpeed's ZeRO-3
    return sum(map(_share, shares)) if shares else None


def _share(parameter: Any) -> int:
    """Elements of this rank's share of a parameter under ZeRO-3, without what fills up the last one."""
    size, rank = int(parameter.ds_tensor.ds_numel), int(parameter.ds_process_group.rank())
    return max(0, min(size, int(parameter.ds_numel) - size * rank))


@contextmanager
def unreduced(module: nn.Module) -> Iterator[None]:
    """Add up gradients of a micro-batch unreduced; parameters are gathered as ever."""
    assert isinstance(module, FSDPModule)
    module.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        module.set_requires_gradient_sync(True)
