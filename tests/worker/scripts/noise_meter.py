"""Norms that the meter sees, against gradients worked out one by one. Exits with 1 where they differ.

noise_meter.py PARTS
"""

from __future__ import annotations

import math
from typing import Any

import torch
from gloo_ranks import check
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from scalecurve_api.programs.workload import Precision
from scalecurve_worker.features.noise_scale.estimate import estimate
from scalecurve_worker.features.noise_scale.meter import NoiseMeter
from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
from scalecurve_worker.torch.strategies import WrappedModel
from scalecurve_worker.torch.training import Trainer

BATCH, STEPS, CPU = 12, 4, torch.device("cpu")


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def batches(world: int) -> list[list[tuple[Tensor, Tensor]]]:
    """Of every step and rank."""
    draw = torch.Generator().manual_seed(1)
    return [
        [(torch.randn(BATCH, 5, generator=draw), torch.randint(3, (BATCH,), generator=draw)) for _ in range(world)]
        for _ in range(STEPS)
    ]


def gradient(of: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    found = torch.autograd.grad(nn.functional.cross_entropy(of(x), y), list(of.parameters()))
    return torch.cat([each.flatten() for each in found])


def wanted(world: int, parts: int) -> Any:
    """With the parameters kept: small and large squared norms of each step."""
    fixed = model()
    small, large = [], []
    for step in batches(world):
        pieces = step if world > 1 else list(zip(step[0][0].chunk(parts), step[0][1].chunk(parts), strict=True))
        each = [gradient(fixed, x, y) for x, y in pieces]
        small.append(math.fsum(float(g.double().square().sum()) for g in each) / len(each))
        large.append(float(torch.stack(each).mean(0).double().square().sum()))
    few = BATCH if world > 1 else BATCH // parts
    return estimate(1, few, BATCH * world, small, large)


def sees_the_norms(rank: int, world: int, parts: int) -> bool:
    wrapped = DistributedDataParallel(model(), gradient_as_bucket_view=True)
    # A rate of zero keeps the parameters.
    spread = WrappedModel(wrapped, "ddp", torch.optim.SGD(wrapped.parameters(), lr=0.0), wrapped.no_sync)
    trainer = Trainer(spread, wrapped, Precision.fp32, CPU)
    meter = NoiseMeter(trainer, BATCH, TorchCommunicator(), parts)
    right = True
    for epoch in (1, 2):
        for step in batches(world):
            x, y = step[rank]
            trainer.update(list(zip(x.chunk(parts), y.chunk(parts), strict=True)))
        row, truth = meter.row(epoch), wanted(world, parts)
        assert row is not None
        for name in ("small_norm2", "large_norm2", "gradient2", "trace"):
            right &= math.isclose(getattr(row, name), getattr(truth, name), rel_tol=1e-4)
        right &= (row.epoch, row.steps, row.small_batch) == (epoch, STEPS, truth.small_batch)
        right &= row.large_batch == BATCH * world
        if not right:
            print(rank, row, truth, flush=True)
    return right


if __name__ == "__main__":
    check(sees_the_norms)
