"""Where a step of GPT-2 goes on one GPU: what each of its makings costs, and the kernels of one step.

    PYTHONPATH=api:worker python -m benchmarks.probes.gpt2_step --model large --batch 8

Each line changes one thing more than the line before: the fused AdamW, a vocabulary that is a multiple of 64 (matrix
units want rows of whole 16 bytes), parameters in bf16 instead of autocast. The last two are other programs than the
one that ScaleCurve times; they are here to say what a difference between two figures is made of. With ``$HOLD`` it
waits for that file before it touches a GPU.
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
import torch.nn.functional as F

from benchmarks import held
from scalecurve_worker.torch.models.transformer import GPT2, GPT2Size

SIZES = {"tiny": GPT2Size(2, 64, 4), "small": GPT2Size(12, 768, 12), "large": GPT2Size(36, 1280, 20)}
KINDS = {
    "matrix products": ("gemm", "cutlass", "nvjet", "xmma", "cublas", "splitk"),
    "attention": ("flash", "fmha", "attention", "sdpa"),
    "optimizer": ("multi_tensor", "fused_adam", "adam"),
    "norms and loss": ("layer_norm", "softmax", "nll", "layernorm", "gammabeta"),
    "copies and casts": ("copy", "memcpy", "memset", "fill"),
}
"""Words in the names of kernels, looked for in this order; the rest is element-wise work and sums."""


@dataclass(frozen=True)
class Variant:
    """One making of the same step."""

    name: str
    fused: bool
    vocabulary: int = 50_257
    narrow: bool = False


VARIANTS = [
    Variant("AdamW for each tensor list", fused=False),
    Variant("AdamW fused", fused=True),
    Variant("... and vocabulary 50,304", fused=True, vocabulary=50_304),
    Variant("... and bf16 parameters", fused=True, vocabulary=50_304, narrow=True),
]


def step_of(variant: Variant, given: argparse.Namespace, device: torch.device) -> Callable[[], None]:
    """One update of a fresh model on a batch of its own."""
    torch.manual_seed(0)
    with device:
        model = GPT2(SIZES[given.model], vocabulary=variant.vocabulary, context=given.length)
        tokens = torch.randint(50_257, (given.batch, given.length + 1))
    model = model.to(torch.bfloat16) if variant.narrow else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True if variant.fused else None)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with nullcontext() if variant.narrow else torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets)
        loss.backward()
        optimizer.step()

    return step


def milliseconds(step: Callable[[], None], count: int, device: torch.device) -> float:
    """Mean of ``count`` steps between two idle devices."""
    wait(device)
    began = time.perf_counter()
    for _ in range(count):
        step()
    wait(device)
    return (time.perf_counter() - began) / count * 1e3


def kernels(step: Callable[[], None], device: torch.device) -> Counter[str]:
    """Device microseconds of one step by kernel."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        wait(device)
    times: Counter[str] = Counter()
    for event in profiler.events() or []:
        if event.name.startswith("Optimizer."):
            continue  # the whole update again, as a named range
        on_device = event.device_type.name == "CUDA"
        if on_device or device.type == "cpu":
            times[event.name] += event.device_time_total if on_device else event.self_cpu_time_total
    return times


def kind_of(name: str) -> str:
    """The group that a kernel's name falls into."""
    low = name.lower()
    return next((kind for kind, words in KINDS.items() if any(word in low for word in words)), "element-wise and sums")


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> int:
    """Print a line for every variant, then the kernels of the first two."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", choices=SIZES, default="large")
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--length", type=int, default=1024)
    arguments.add_argument("--steps", type=int, default=10)
    given = arguments.parse_args()
    held.wait()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"GPT-2 {given.model}, {given.batch} x {given.length} tokens, one {where}, torch {torch.__version__}")
    for variant in VARIANTS:
        step = step_of(variant, given, device)
        milliseconds(step, min(3, given.steps), device)
        found = milliseconds(step, given.steps, device)
        print(
            f"{variant.name:28} {found:8.1f} ms {given.batch * given.length / found * 1e3:10,.0f} tokens/s", flush=True
        )
        if variant in VARIANTS[:2]:
            times = kernels(step, device)
            groups: Counter[str] = Counter()
            for name, spent in times.items():
                groups[kind_of(name)] += spent
            busy = ", ".join(f"{kind} {spent / 1e3:.1f}" for kind, spent in groups.most_common())
            print(f"    ms of kernels: {sum(groups.values()) / 1e3:.1f} in all; {busy}")
            for name, spent in times.most_common(6):
                print(f"    {spent / 1e3:7.1f} ms {name[:110]}")
            sys.stdout.flush()
        del step
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
