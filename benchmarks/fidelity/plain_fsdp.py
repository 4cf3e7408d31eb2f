"""FSDP2 as torch's tutorial and torchtitan have it, written by hand: what ``strategy: fsdp`` is held against.

``fully_shard`` on each block and on the model, parameters in bf16, gradients reduced in fp32, no autocast.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from benchmarks.fidelity.plain_ddp import Wrap


def sharded(device: torch.device, workers: int, shard: int = 0, full_checkpointing: bool = False) -> Wrap:
    """Over all workers, or with ``shard`` over so many, and replicas of them (HSDP)."""

    def wrap(model: nn.Module) -> nn.Module:
        shape, names = ((workers // shard, shard), ("replicate", "shard")) if shard else ((workers,), ("shard",))
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        blocks = model.get_submodule("blocks")
        assert isinstance(blocks, nn.Sequential | nn.ModuleList)
        for index, block in enumerate(blocks):
            if full_checkpointing:
                blocks[index] = checkpoint_wrapper(block)
            fully_shard(blocks[index], mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        return model

    return wrap


def replicated(device: torch.device) -> Wrap:
    """DDP, with the blocks of the model recomputed."""

    def wrap(model: nn.Module) -> nn.Module:
        blocks = model.get_submodule("blocks")
        assert isinstance(blocks, nn.Sequential | nn.ModuleList)
        for index, block in enumerate(blocks):
            blocks[index] = checkpoint_wrapper(block)
        return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)

    return wrap
