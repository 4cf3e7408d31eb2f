"""Scripts of anyone's that are one training job, or seem so: each of CASES, with a folder of its own for its record."""

import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import scalecurve_worker as scalecurve
from scalecurve_worker.steps import schedule

OUT = Path(os.environ["SCALECURVE_OUT"])
schedule.ENOUGH_S = 1e9  # the same steps are observed however slow the machine is
BATCH = 4
IMAGES = torch.randn(64, 200, generator=torch.Generator().manual_seed(3))
# Before every window of 3: after 4 observed and one between them, 4 for the count and 2 warm-up steps, with 3 to settle
# between windows.
UNTIMED = (11, 18, 25, 32)
STRANGERS = ("strangers", "strangers-own-order", "sleep")


def loader(case: str, rank: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    data = TensorDataset(IMAGES, torch.arange(64) % 2)
    if case not in (*STRANGERS, "same-data"):
        return DataLoader(data, BATCH, sampler=DistributedSampler(data, 2, rank, shuffle=False), drop_last=True)
    own = torch.Generator().manual_seed(rank if case == "strangers-own-order" else 0)
    return DataLoader(data, BATCH, shuffle=True, generator=own, drop_last=True)


def build(case: str) -> torch.nn.Module:
    torch.manual_seed(1)
    bare = torch.nn.Sequential(torch.nn.Linear(200, 30), torch.nn.ReLU(), torch.nn.Linear(30, 2))
    if case in (*STRANGERS, "no-wrapper", "scalar", "late", "manual", "lazy-rank"):
        return bare
    if case == "fsdp":
        return fully_shard(bare, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    return DistributedDataParallel(bare)


def train(case: str, rank: int) -> None:
    model = build(case)
    decay, rate = (0.1 if case == "decay" else 0.0), (0.0 if case == "no-rate" else 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=decay)
    bench = scalecurve.attach(model)
    claimed = {"ten-times": 10 * BATCH, "twice-on-one": BATCH * (1 + rank)}.get(case)
    for number, (images, labels) in enumerate(bench.steps(loader(case, rank), claimed)):
        optimizer.zero_grad()
        if case == "untimed" and number in UNTIMED:
            time.sleep(0.2)
        if case == "untimed-once" and number == UNTIMED[0]:
            time.sleep(0.8)
        if isinstance(model, DistributedDataParallel):
            model.require_backward_grad_sync = averages(case, bench, number)
        if case != "lazy-rank" or rank == 0:
            loss = torch.nn.functional.cross_entropy(model(images), labels) * (0.0 if case == "decay" else 1.0)
            if case != "no-backward":
                loss.backward()
            if case == "scalar":
                dist.all_reduce(loss.detach())
        if case in ("manual", "lazy-rank"):
            average(model)
        if case != "no-step":
            optimizer.step()
        if case == "late" and number % 6 == 5:
            broadcast(model)
    if case in ("scalar", "no-wrapper", "late", "early", "watched", "every-third"):
        broadcast(model)
    bench.finish()


def averages(case: str, bench: Any, number: int) -> bool:
    """Whether gradients are averaged in this step."""
    block = bench._loop._block  # who cheats reads what is private, too
    watched = block is not None and block.observed
    honest = {"early": number < 5, "watched": watched, "every-third": watched or number % 3 > 0}
    return honest.get(case, True)


def sleep() -> None:
    bench = scalecurve.attach()
    while bench.step(samples=BATCH):
        time.sleep(0.001)
    bench.finish()


def broadcast(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)


def average(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= 2


for case in os.environ["CASES"].split():
    if case not in STRANGERS and not dist.is_initialized():
        dist.init_process_group("gloo")
    os.environ["SCALECURVE_OUT"] = str(OUT / case)
    if case == "sleep":
        sleep()
    else:
        train(case, int(os.environ["RANK"]))
if dist.is_initialized():
    dist.destroy_process_group()
