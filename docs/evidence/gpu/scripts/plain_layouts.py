"""Loops of tensor, pipeline and context parallelism written by hand: what ``strategy: mesh`` is held against.

The model's code and the parallel plan are the harness's (its blocks, ``parallelize_module`` over them, its cut into
stages, its attention over gathered keys and values), and everything around them is torch alone: meshes, schedule,
``fully_shard``, optimizer, data and clock. Each layout is of all ranks, one dimension.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from benchmarks.fidelity.plain_ddp import POOL, cross_entropy, synchronize
from scalecurve_worker.extras.layouts.context import share_sequences
from scalecurve_worker.extras.layouts.stages import TransformerStage
from scalecurve_worker.extras.layouts.tensor import separate, split
from scalecurve_worker.torch.models import build, spec

Step = Callable[[Tensor, Tensor], Any]


def measure(
    kind: str,
    model_name: str,
    batch: int,
    length: int,
    steps: int,
    warmup: int,
    device: torch.device,
    parts: int = 1,
    recomputed: bool = False,
) -> float:
    """Tokens a second; ``batch`` is of all ranks, which share the samples. The process group is joined already."""
    torch.manual_seed(0)
    with device:
        model = build(model_name, input_shape=(length,))
    train_step = MAKERS[kind](model, device, length, parts, recomputed)
    generator = torch.Generator(device).manual_seed(1)
    text = [
        torch.randint(spec(model_name).classes, (batch, length + 1), device=device, generator=generator)
        for _ in range(POOL)
    ]
    batches = cycle([(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in text])

    def train(count: int) -> None:
        for inputs, targets in islice(batches, count):
            train_step(inputs, targets)

    train(warmup)
    synchronize(device)
    dist.barrier()
    synchronize(device)
    began = time.perf_counter()
    train(steps)
    synchronize(device)
    wall = torch.tensor(time.perf_counter() - began, dtype=torch.float64, device=device)
    dist.all_reduce(wall, op=dist.ReduceOp.MAX)
    return batch * length * steps / float(wall)


def tensor(model: Any, device: torch.device, length: int, _: int, recomputed: bool) -> Step:
    """Columns and rows of each block's matrices over all ranks, the sequence between them, the loss over logits."""
    mesh = mesh_of(device, "tensor")
    separate(model)
    whole_logits = bool(model.tokens.num_embeddings % mesh.size())
    stage = TransformerStage(model, range(len(model.blocks)), 0, length)
    split(stage, mesh, whole_logits=whole_logits)
    recompute(stage, recomputed)
    optimizer = sgd(stage)

    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        if whole_logits:
            backward(stage, inputs, targets)
        else:
            with loss_parallel():
                backward(stage, inputs, targets)
        for parameter in stage.parameters():  # a norm has seen its part of the sequence
            grad = parameter.grad
            if isinstance(parameter, DTensor) and isinstance(grad, DTensor) and grad.placements != parameter.placements:
                parameter.grad = grad.redistribute(placements=parameter.placements)
        optimizer.step()

    return step


def pipeline(model: Any, device: torch.device, length: int, parts: int, recomputed: bool) -> Step:
    """A stage on each rank, 1F1B; an embedding that is the output layer too is summed over both ends."""
    rank, world = dist.get_rank(), dist.get_world_size()
    separate(model)
    first = rank * len(model.blocks) // world
    stage = TransformerStage(model, range(first, (rank + 1) * len(model.blocks) // world), 0, length)
    recompute(stage, recomputed)
    optimizer = sgd(stage)
    schedule = Schedule1F1B(PipelineStage(stage, rank, world, device), parts, loss_fn=cross_entropy)
    end = stage.tokens or stage.head
    tied = end.weight if stage.tied and end is not None else None

    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            if rank == 0:
                schedule.step(inputs)
            elif rank == world - 1:
                schedule.step(target=targets, losses=[])
            else:
                schedule.step()
        if tied is not None and tied.grad is not None and world == 2:
            dist.all_reduce(tied.grad)
        optimizer.step()

    return step


def context(model: Any, device: torch.device, length: int, _: int, recomputed: bool) -> Step:
    """Each rank has its part of every sequence and gathers keys and values; FSDP2 by block over the same ranks."""
    mesh, rank = mesh_of(device, "context"), dist.get_rank()
    separate(model)
    local = length // mesh.size()
    stage = TransformerStage(model, range(len(model.blocks)), rank * local, local)
    share_sequences(stage, mesh)
    recompute(stage, recomputed)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in stage.blocks.values():
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(stage, mesh=mesh, mp_policy=policy)
    optimizer = sgd(stage)

    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        own = slice(rank * local, (rank + 1) * local)
        cross_entropy(stage(inputs[:, own].contiguous()), targets[:, own].contiguous()).backward()
        optimizer.step()

    return step


MAKERS: dict[str, Callable[[Any, torch.device, int, int, bool], Step]] = {
    "tensor": tensor,
    "pipeline": pipeline,
    "context": context,
}


def mesh_of(device: torch.device, name: str) -> DeviceMesh:
    return init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=(name,))


def recompute(stage: TransformerStage, recomputed: bool) -> None:
    for name, block in list(stage.blocks.items()) if recomputed else []:
        stage.blocks[name] = checkpoint_wrapper(block)


def sgd(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(list(module.parameters()), lr=0.05, momentum=0.9)


def backward(stage: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = cross_entropy(stage(inputs), targets)
    loss.backward()
