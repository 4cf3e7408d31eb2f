"""A small DDP loop, of ResNet-50 on GPUs, with one cause of lost efficiency; what it cost by its clock is printed."""

import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import scalecurve_worker as scalecurve

CAUSE, SECONDS = os.environ["CAUSE"], float(os.environ.get("CAUSE_MS", "0")) / 1e3
BATCH = int(os.environ["SCALECURVE_BATCH_PER_WORKER"])
ELEMENTS = int(os.environ.get("CAUSE_ELEMENTS", "0"))
GPU = os.environ.get("CAUSE_DEVICE") == "gpu"
DEVICE = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if GPU else torch.device("cpu")


class Network(nn.Module):
    """Two layers, about a million parameters, on a GPU ResNet-50; a fixed cost stands for kernels too small to fill."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.layers = resnet50() if GPU else nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
        self.delay_s = delay_s

    def forward(self, inputs: Tensor) -> Tensor:
        time.sleep(self.delay_s)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=GPU):
            output: Tensor = self.layers(inputs)
        return output


class Batches:
    """The same batch again and again, each after a while."""

    def __init__(self, delay_s: float) -> None:
        self.batch = images() if GPU else (torch.randn(BATCH, 512), torch.randn(BATCH, 512))
        self.delay_s = delay_s

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            time.sleep(self.delay_s)
            yield self.batch


def resnet50() -> nn.Module:
    """As the built-in program trains it."""
    from scalecurve_worker.torch.models import build

    return build("resnet50").to(memory_format=torch.channels_last)


def images() -> tuple[Tensor, Tensor]:
    """One batch, on the GPU."""
    inputs = torch.randn(BATCH, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
    return inputs, torch.randint(1000, (BATCH,), device=DEVICE)


def main() -> None:
    """Train until everything is measured."""
    if GPU:
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl" if GPU else "gloo")
    rank, several = dist.get_rank(), dist.get_world_size() > 1
    torch.manual_seed(rank)
    batches = Batches(SECONDS if CAUSE == "loader" and several else 0.0)
    torch.manual_seed(0)
    slow = CAUSE == "batch" or (CAUSE == "rank" and rank == 1)
    model = DistributedDataParallel(Network(SECONDS if slow else 0.0).to(DEVICE))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    extra, spent = torch.zeros(ELEMENTS), []
    with scalecurve.attach(model) as bench:
        for inputs, targets in bench.steps(batches):
            optimizer.zero_grad()
            if GPU:
                # Read in each step, as a loop that logs does: what the host then spends, the GPU waits for.
                loss = nn.functional.cross_entropy(model(inputs).float(), targets)
                loss.backward()
                loss.item()
            else:
                nn.functional.mse_loss(model(inputs), targets).backward()
            if CAUSE == "bytes" and several:
                began = time.monotonic()
                dist.all_reduce(extra)
                spent.append(time.monotonic() - began)
            if CAUSE == "host" and several:
                time.sleep(SECONDS)
            optimizer.step()
    if spent and rank == 0:
        print(f"injected {sorted(spent)[len(spent) // 2]:.6f} s", flush=True)
    dist.destroy_process_group()


main()
