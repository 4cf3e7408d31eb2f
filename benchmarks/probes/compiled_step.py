"""Where a compiled step of GPT-2 goes: what each way of compiling beside DistributedDataParallel costs.

    PYTHONPATH=api:worker python -m torch.distributed.run --nproc-per-node 1 -m benchmarks.probes.compiled_step

torch.compile over DistributedDataParallel cuts the graph at the borders of its buckets, so that gradients leave while
the rest is computed; compiled inside, or with optimize_ddp off, the model is one graph. Kernels are those of one step.
With ``$HOLD`` it waits for that file before it touches a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from benchmarks.held import join
from benchmarks.probes.gpt2_step import SIZES, kernels, kind_of, milliseconds
from scalecurve_worker.torch.models.transformer import GPT2


@dataclass(frozen=True)
class Variant:
    """One making of the same step."""

    name: str
    inside: bool = False
    """Whether the model is compiled before DistributedDataParallel takes it."""
    cut: bool = True
    wrapped: bool = True
    loss: bool = False
    """Whether the loss is compiled with it."""
    apart: bool = False
    """Whether the loss is compiled by itself."""
    attention: SDPBackend | None = None


VARIANTS = [
    Variant("compile(DDP(model))"),
    Variant("... and the loss apart, as the worker", apart=True),
    Variant("... without cutting the graph", cut=False),
    Variant("DDP(compile(model))", inside=True),
    Variant("compile(model), no DDP", wrapped=False),
    Variant("... and the loss", wrapped=False, loss=True),
    Variant("... and cuDNN's attention", wrapped=False, loss=True, attention=SDPBackend.CUDNN_ATTENTION),
]


def step_of(variant: Variant, given: argparse.Namespace, device: torch.device) -> Callable[[], None]:
    """One update of a fresh model on a batch of its own."""
    torch._dynamo.reset()
    torch._dynamo.config.optimize_ddp = variant.cut
    torch.manual_seed(0)
    with device:
        model: nn.Module = GPT2(SIZES[given.model], vocabulary=50_304, context=given.length)
        tokens = torch.randint(50_257, (given.batch, given.length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device.type == "cuda")
    if variant.wrapped:
        inner = torch.compile(model) if variant.inside else model
        model = DistributedDataParallel(inner, device_ids=[device] if device.type == "cuda" else None,
                                        gradient_as_bucket_view=True)  # fmt: skip
    forward = model if variant.inside else torch.compile(model)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()

    cross_entropy = torch.compile(F.cross_entropy) if variant.apart else F.cross_entropy

    def loss_of() -> torch.Tensor:
        return cross_entropy(forward(inputs).flatten(0, 1), targets)

    compiled = torch.compile(loss_of) if variant.loss else loss_of

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with (
            torch.autocast(device.type, torch.bfloat16),
            sdpa_kernel(variant.attention) if variant.attention else nullcontext(),
        ):
            loss = compiled()
        loss.backward()
        optimizer.step()

    return step


def main() -> int:
    """Some lines for every variant."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", choices=SIZES, default="small")
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--length", type=int, default=1024)
    arguments.add_argument("--steps", type=int, default=30)
    given = arguments.parse_args()
    device = join()
    gpu = device.type == "cuda"
    first = dist.get_rank() == 0
    for variant in VARIANTS if gpu else VARIANTS[:-1]:
        began = time.monotonic()
        step = step_of(variant, given, device)
        milliseconds(step, min(15, given.steps), device)
        found = milliseconds(step, given.steps, device)
        rate = dist.get_world_size() * given.batch * given.length / found * 1e3
        groups: Counter[str] = Counter()
        times = kernels(step, device)
        for name, spent in times.items():
            groups[kind_of(name)] += spent
        if first:
            print(f"{variant.name:42} {found:7.1f} ms {rate:10,.0f} tokens/s  {time.monotonic() - began:.0f} s")
            print(f"    {sum(groups.values()) / 1e3:.1f} ms of kernels;",
                  ", ".join(f"{kind} {spent / 1e3:.1f}" for kind, spent in groups.most_common()))  # fmt: skip
            for name, spent in times.most_common(10):
                print(f"    {spent / 1e3:7.2f} ms {name[:120]}")
            sys.stdout.flush()
        del step
        if gpu:
            torch.cuda.empty_cache()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
