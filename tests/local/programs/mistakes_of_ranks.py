"""What newcomers do wrong with several ranks: CASES that are measured, one after another, or one that is not."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import scalecurve_worker as scalecurve

OUT = Path(os.environ["SCALECURVE_OUT"])
RANK = int(os.environ["RANK"])


def train(case: str) -> None:
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Linear(64, 8)
    if case not in ("forgets-ddp", "wraps-after-attach", "attaches-before-the-group"):
        model = DistributedDataParallel(model)
    bench = scalecurve.attach(None if case == "passes-no-model" else model)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    if case in ("wraps-after-attach", "attaches-before-the-group"):
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(0 if case == "reads-the-same-data" else RANK)
    steps = 0
    while bench.step(samples=4):
        if case == "ends-early-on-a-rank" and RANK == 1 and steps == 9:
            break
        optimizer.zero_grad()
        model(torch.randn(4, 64, generator=generator)).square().mean().backward()
        if case != "never-steps":
            optimizer.step()
        steps += 1
    bench.finish()


def spawned(local: int) -> None:
    scalecurve.attach()


if __name__ == "__main__":
    cases = os.environ["CASES"].split()
    if cases == ["spawns-ranks"]:
        torch.multiprocessing.spawn(spawned)
        sys.exit()
    if cases[0] != "attaches-before-the-group":
        dist.init_process_group("gloo")
    for name in cases:
        os.environ["SCALECURVE_OUT"] = str(OUT / name)
        train(name)
    dist.destroy_process_group()
