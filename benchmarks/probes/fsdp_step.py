"""What a step of FSDP2 waits for: step and host times one by one, and what the allocator asked the device for.

    PYTHONPATH=api:worker python -m torch.distributed.run --nproc-per-node 2 -m benchmarks.probes.fsdp_step

GPT-2 shared out as the worker does it, on as many GPUs as there are processes. "host" is the time in which Python has
sent off a step: where it is near the step's, Python, and not a GPU, is what the step waits for. "calls" are the
allocator's calls of cudaMalloc and cudaFree up to then, each of which stops everything. The lines after the first each
change one thing, and are other programs than ScaleCurve's. With ``$HOLD`` it waits for that file before it touches a
GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh

from benchmarks.held import join
from benchmarks.probes.gpt2_step import SIZES
from scalecurve_api.programs.workload import Precision
from scalecurve_worker.torch.models.transformer import GPT2
from scalecurve_worker.torch.sharding import shard

BY_BLOCK = 1e-3


@dataclass(frozen=True)
class Variant:
    """One making of the same step."""

    name: str
    autocast: bool = True
    group_mb: float = BY_BLOCK
    """Blocks gathered together, up to so many MiB."""
    plain: bool = False
    """Without FSDP2, and without any exchange."""


VARIANTS = [
    Variant("block by block"),
    Variant("without autocast", autocast=False),
    Variant("groups of 128 MiB, as the worker", group_mb=128),
    Variant("groups of 256 MiB", group_mb=256),
    Variant("groups of 512 MiB", group_mb=512),
    Variant("... without autocast", group_mb=512, autocast=False),
    Variant("no FSDP2, no exchange", plain=True),
]


def measure(variant: Variant, given: argparse.Namespace, device: torch.device) -> None:
    """Train a fresh model on one batch, and print what was found on rank 0."""
    torch.manual_seed(0)
    with device:
        model = GPT2(SIZES[given.model], vocabulary=50_304, context=given.length)
        tokens = torch.randint(50_257, (given.batch, given.length + 1))
    if not variant.plain:
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        shard(model, mesh, Precision.bf16, variant.group_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device.type == "cuda")
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
    steps, hosts, calls = [], [], []
    for _ in range(given.steps):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16) if variant.autocast else nullcontext():
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets)
        loss.backward()
        optimizer.step()
        hosts.append((time.perf_counter() - began) * 1e3)
        if device.type == "cuda":
            torch.cuda.synchronize()
            found = torch.cuda.memory_stats(device)
            calls.append(found["num_device_alloc"] + found["num_device_free"])
        steps.append((time.perf_counter() - began) * 1e3)
    if dist.get_rank():
        return
    late = len(steps) // 2
    middle = statistics.median(steps[late:])
    rate = dist.get_world_size() * given.batch * given.length / middle * 1e3
    print(f"{variant.name:34} {middle:8.1f} ms, host {statistics.median(hosts[late:]):8.1f} ms {rate:10,.0f} tokens/s")
    print("    steps", *(f"{each:.0f}" for each in steps))
    print("    host ", *(f"{each:.0f}" for each in hosts))
    print("    calls", *calls, flush=True)


def main() -> int:
    """Some lines for every variant."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", choices=SIZES, default="large")
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--length", type=int, default=1024)
    arguments.add_argument("--steps", type=int, default=20)
    given = arguments.parse_args()
    device = join()
    gpu = device.type == "cuda"
    if not dist.get_rank():
        where = torch.cuda.get_device_name(device) if gpu else "CPU, which shows that the script runs"
        print(f"GPT-2 {given.model}, {given.batch} x {given.length} tokens a rank, {dist.get_world_size()} x {where}")
    for variant in VARIANTS:
        if gpu:
            torch.cuda.empty_cache()
        measure(variant, given, device)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
