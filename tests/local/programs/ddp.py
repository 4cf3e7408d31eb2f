"""A user's own training script: real DDP over gloo, the SDK's three lines, and the ledger that ``light.py`` keeps."""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path

import torch
import torch.distributed as dist
from light import note
from torch.nn.parallel import DistributedDataParallel

from scalecurve_worker import attach


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rank, world, out = dist.get_rank(), dist.get_world_size(), Path(os.environ["SCALECURVE_OUT"])
    ledger, trial, run = Path(sys.argv[1]), out.parent.name, uuid.uuid4().hex
    note(ledger, trial, rank, run, "begin")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(16, 64, generator=torch.Generator().manual_seed(rank))
    bench = attach(model)
    bench.session.facts.options["run"] = run
    while bench.step(samples=16):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    bench.finish()
    while rank == 0 and not all((out / f"rank-{other}.json").exists() for other in range(world)):
        time.sleep(0.002)
    note(ledger, trial, rank, run, "end")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
