"""Anybody's own DDP script with the SDK, right and wrong in every way that FAULTS names; one folder for each."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import scalecurve_worker as scalecurve

OUT = Path(os.environ["SCALECURVE_OUT"])


def train(fault: str) -> None:
    torch.manual_seed(0)
    bare = torch.nn.Linear(4, 2)
    model = bare if fault == "no-wrapper" else DistributedDataParallel(bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))

    bench = scalecurve.attach(model)
    while bench.step(samples=8):
        loss = model(torch.randn(8, 4, generator=generator)).square().mean()
        if fault == "nan":
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bench.loss(loss)
    bench.finish()


dist.init_process_group("gloo")
for fault in os.environ["FAULTS"].split():
    os.environ["SCALECURVE_OUT"] = str(OUT / fault)
    if fault == "own-world":
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    train(fault)
dist.destroy_process_group()
