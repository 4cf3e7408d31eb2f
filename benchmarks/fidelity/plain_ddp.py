"""A data-parallel training loop as a careful engineer writes it by hand, without any harness.

    torchrun --standalone --nproc-per-node 4 benchmarks/fidelity/plain_ddp.py --model resnet50 --batch 256

Prints samples a second over all workers: samples over the slowest rank's wall time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalecurve_worker.torch.models import build, spec

Wrap = Callable[[nn.Module], nn.Module]
POOL = 4
"""Batches served in turn, as many as the harness's synthetic data has: both loops are to train on equal data. VGG-16 on
four H200s did 0.7 % more with a single batch (docs/evidence/h200); why was not measured."""


def measure(
    model_name: str,
    batch: int,
    steps: int,
    warmup: int,
    device: torch.device,
    compiled: bool = False,
    pool: int = POOL,
    wrap: Wrap | None = None,
    autocast: bool = True,
) -> float:
    """Samples or tokens a second over all workers; ``batch`` is each worker's. The process group is joined already.

    ``wrap`` spreads the model, by DDP as torch has it unless another is passed; ``autocast`` is of its forward pass.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    cuda = device.type == "cuda"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    shape, classes, tokens = spec(model_name).shape, spec(model_name).classes, spec(model_name).kind == "tokens"
    model = build(model_name).to(device)
    if not tokens:
        model = model.to(memory_format=torch.channels_last)
    model = wrap(model) if wrap else DistributedDataParallel(model, device_ids=[device] if cuda else None)
    forward = torch.compile(model) if compiled else model
    loss_of = torch.compile(cross_entropy) if compiled else cross_entropy
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    generator = torch.Generator(device).manual_seed(1 + rank)
    data = []
    for _ in range(pool):
        if tokens:
            text = torch.randint(classes, (batch, shape[0] + 1), device=device, generator=generator)
            data.append((text[:, :-1].contiguous(), text[:, 1:].contiguous()))
            continue
        inputs = torch.randn(batch, *shape, device=device, generator=generator)
        if inputs.dim() == 4:
            inputs = inputs.to(memory_format=torch.channels_last)
        data.append((inputs, torch.randint(classes, (batch,), device=device, generator=generator)))
    batches = itertools.cycle(data)

    def train(count: int) -> None:
        for inputs, targets in itertools.islice(batches, count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=autocast):
                loss = loss_of(forward(inputs), targets)
            loss.backward()
            optimizer.step()

    train(warmup)
    synchronize(device)
    dist.barrier()
    synchronize(device)
    began = time.perf_counter()
    train(steps)
    synchronize(device)
    wall = torch.tensor(time.perf_counter() - began, dtype=torch.float64, device=device)
    dist.all_reduce(wall, op=dist.ReduceOp.MAX)
    return batch * (shape[0] if tokens else 1) * world * steps / float(wall)


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Compiled like the model: otherwise GPT-2 small on an H200 ran 16 % slower, and the loop was no equal of ours."""
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", default="resnet50")
    arguments.add_argument("--batch", type=int, default=256, help="samples a step for each worker")
    arguments.add_argument("--steps", type=int, default=75)
    arguments.add_argument("--warmup", type=int, default=20)
    arguments.add_argument("--compile", action="store_true")
    given = arguments.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    with torch.cuda.device(device) if cuda else nullcontext():
        dist.init_process_group("nccl" if cuda else "gloo")
        rate = measure(given.model, given.batch, given.steps, given.warmup, device, given.compile)
        if dist.get_rank() == 0:
            print(f"{given.model}, {dist.get_world_size()} x {given.batch}: {rate:,.1f} samples/s")
        dist.barrier()  # gloo aborts now and then when a rank leaves while another is still in its last collective
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
