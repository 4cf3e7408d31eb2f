"""Where a step of DataParallel goes on this machine's GPUs: what each of its makings costs, ResNet-50 by default.

    PYTHONPATH=api:worker python -m benchmarks.probes.dataparallel_step

One process trains one model on every GPU that it sees. DataParallel starts a thread for each GPU in every step, and
cuDNN remembers its search for the fastest convolutions by thread; the worker keeps the threads, unless it is asked not
to. The lines say what a difference is made of. "host" is the time after which Python has sent off a forward
pass: where it is near the step's, Python, and not a GPU, is what the step waits for. With ``$HOLD`` it waits for that
file before it touches a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.held import wait
from scalecurve_worker.torch.models import build, spec
from scalecurve_worker.torch.strategies import KeptThreads


class OneThread(nn.DataParallel[nn.Module]):
    """DataParallel whose replicas are sent off one after another, by the thread that trains."""

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Outputs of the replicas, in the order of their devices."""
        outputs = []
        for index, replica in enumerate(replicas):
            with torch.cuda.device(self.device_ids[index]):
                outputs.append(replica(*inputs[index], **kwargs[index]))
        return outputs


@dataclass(frozen=True)
class Variant:
    """One making of the same step."""

    name: str
    wrap: Callable[[nn.Module], nn.Module] | None
    search: bool = False
    """Whether cuDNN searches for the fastest convolutions."""
    channels_last: bool = True
    narrow: bool = False
    """Parameters in bf16, instead of autocast."""


VARIANTS = [
    Variant("one GPU, bare", None),
    Variant("one GPU, bare, cuDNN's search", None, search=True),
    Variant("torch's DataParallel", nn.DataParallel),
    Variant("one thread for all", OneThread),
    Variant("one thread for all, cuDNN's search", OneThread, search=True),
    Variant("kept threads", KeptThreads),
    Variant("kept threads, cuDNN's search", KeptThreads, search=True),
    Variant("... and plain memory order", KeptThreads, search=True, channels_last=False),
    Variant("... and bf16 parameters instead", KeptThreads, search=True, narrow=True),
]


@dataclass(frozen=True)
class Found:
    """Medians of a step and of its forward pass on the host, in ms, and the samples of a step."""

    step_ms: float
    host_ms: float
    samples: int


def measure(variant: Variant, given: argparse.Namespace, device: torch.device) -> Found:
    """Train a fresh model on one batch of synthetic data that lies on the first GPU, as the worker's does."""
    torch.backends.cudnn.benchmark = variant.search
    torch.manual_seed(0)
    order = torch.channels_last if variant.channels_last else torch.contiguous_format
    kind = torch.bfloat16 if variant.narrow else torch.float32
    bare = build(given.model).to(device, kind).to(memory_format=order)
    model = variant.wrap(bare) if variant.wrap else bare
    samples = given.batch * (max(1, torch.cuda.device_count()) if variant.wrap else 1)
    shape, classes = spec(given.model).shape, spec(given.model).classes
    inputs = torch.randn(samples, *shape, device=device, dtype=kind).to(memory_format=order)
    targets = torch.randint(classes, (samples,), device=device)
    optimizer = torch.optim.SGD(bare.parameters(), lr=0.05, momentum=0.9)
    steps, hosts = [], []
    for number in range(given.warmup + given.steps):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with nullcontext() if variant.narrow else torch.autocast(device.type, torch.bfloat16):
            logits = model(inputs)
            host = time.perf_counter() - began
            loss = F.cross_entropy(logits.float(), targets)
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number >= given.warmup:
            steps.append(time.perf_counter() - began)
            hosts.append(host)
    return Found(statistics.median(steps) * 1e3, statistics.median(hosts) * 1e3, samples)


def main() -> int:
    """A line for every variant."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", default="resnet50")
    arguments.add_argument("--batch", type=int, default=256, help="samples a GPU")
    arguments.add_argument("--steps", type=int, default=12)
    arguments.add_argument("--warmup", type=int, default=5)
    given = arguments.parse_args()
    wait()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gpus = torch.cuda.device_count()
    where = f"{gpus} x {torch.cuda.get_device_name(0)}" if gpus else "CPU, which shows that the script runs"
    print(f"{given.model}, {given.batch} samples a GPU, {where}, torch {torch.__version__}, a synchronize every step")
    for variant in VARIANTS if gpus else VARIANTS[:3]:
        found = measure(variant, given, device)
        rate = found.samples / found.step_ms * 1e3
        print(
            f"{variant.name:36} {found.step_ms:8.1f} ms, host {found.host_ms:8.1f} ms {rate:10,.0f} samples/s",
            flush=True,
        )
        if gpus:
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
