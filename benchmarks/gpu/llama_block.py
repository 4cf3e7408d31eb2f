"""Kernel times of one Llama-3-8B block at 8,192 tokens, and torchtitan's published steps predicted from them alone.

    python -m benchmarks.gpu.llama_block measure --out block.json        # one GPU, a minute
    python -m benchmarks.gpu.llama_block predict block.json --out predicted.json
    python -m benchmarks.gpu.llama_block score predicted.json

A block is what one more of them adds to forward and backward of embedding, blocks, norm, head and loss, selectively
checkpointed, in bf16; the rest is what a model of one block takes beside it. ``predict`` reads no published figure:
32 blocks, the rest and AdamW of the worker's share are computing, and collectives and links are those of
``benchmarks.projection``. ``score`` compares, and shows in which order both came about in git.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.projection import BASE, BATCH, LENGTH, TABLES, recorded, step_s
from scalecurve.hardware.devices import find_link
from scalecurve_api.programs.torch_options import Recomputation
from scalecurve_models.projection.links import links_of
from scalecurve_worker.torch.explain.kernels import summarize
from scalecurve_worker.torch.explain.trace import _events
from scalecurve_worker.torch.models.transformer import Llama, LlamaSize
from scalecurve_worker.torch.profiler_session import ProfilerSession
from scalecurve_worker.torch.recomputation import recomputed

LAYERS, WORKERS = 32, (BASE, 128)


@dataclass(frozen=True)
class Shape:
    """What is timed: a Llama's block, and how many tokens it gets."""

    size: LlamaSize
    vocabulary: int
    batch: int
    length: int
    repeats: int


FULL = Shape(LlamaSize(1, 4096, 32, 8, 14_336, tied=False), 128_256, BATCH, LENGTH, 8)
TINY = Shape(LlamaSize(1, 64, 4, 2, 192, tied=False), 256, 2, 32, 2)


def passes_s(shape: Shape, layers: int, device: torch.device, compiled: bool) -> tuple[float, Callable[[], None]]:
    """Median seconds of forward and backward of so many blocks with what is around them, and what runs them."""
    torch.manual_seed(0)
    with device:
        model: nn.Module = Llama(shape.size._replace(layers=layers), vocabulary=shape.vocabulary)
    model = recomputed(model.to(torch.bfloat16), Recomputation.selective)
    for block in model.blocks if compiled else ():  # type: ignore[union-attr]
        block.compile()
    tokens = torch.randint(shape.vocabulary, (shape.batch, shape.length + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()

    def run() -> None:
        model.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(inputs).flatten(0, -2).float(), targets).backward()

    return timed(run, shape.repeats, device), run


def optimizer_s(elements: int, repeats: int, device: torch.device) -> float:
    """Seconds that AdamW takes for each parameter of a share in fp32."""
    parameter = nn.Parameter(torch.zeros(elements, device=device))
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW([parameter], fused=device.type == "cuda")
    return timed(lambda: optimizer.step() and None, repeats, device) / elements


def timed(run: Callable[[], None], repeats: int, device: torch.device) -> float:
    """Median of runs that are waited for, after three that are not timed."""

    def once() -> float:
        began = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    return statistics.median([once() for _ in range(3 + repeats)][3:])


def kernels_of(run: Callable[[], None], device: torch.device) -> list[dict[str, Any]]:
    """Milliseconds by class of kernel, of one run."""
    session = ProfilerSession()
    session.begin(use_device="cuda" if device.type == "cuda" else None)
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    events = [*_events(session.end() or ())]
    found = summarize(events, "cuda" if device.type == "cuda" else "cpu", 1, 1)
    return [{"class": each.name, "calls": each.calls, "ms": each.ns / 1e6} for each in found.kernels]


def measure(shape: Shape, device: torch.device, modes: tuple[bool, ...] = (False, True)) -> dict[str, Any]:
    """Seconds of a block, of the rest and of AdamW for each parameter; not compiled and compiled."""
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "shape": asdict(shape) | {"size": shape.size._asdict()},
        "adamw_s": optimizer_s(1 << (28 if device.type == "cuda" else 16), shape.repeats, device),
    }
    for compiled in modes:
        one, run = passes_s(shape, 1, device, compiled)
        kernels = kernels_of(run, device)
        del run
        three, run = passes_s(shape, 3, device, compiled)
        more = kernels_of(run, device)
        block = (three - one) / 2
        times = {"one_s": one, "three_s": three, "block_s": block, "rest_s": one - block}
        found["compiled" if compiled else "eager"] = times | {"kernels_of_one": kernels, "kernels_of_three": more}
    return found


def predict(measured: dict[str, Any]) -> dict[str, Any]:
    """Tokens a second and GPU at each count, from the measured block alone."""
    links = links_of([], find_link("nvlink4"), find_link("400gbps"))
    rows = []
    for workers in WORKERS:
        program = recorded(workers).program
        for mode in ("eager", "compiled"):
            if mode not in measured:
                continue
            times = measured[mode]
            optimizer = measured["adamw_s"] * program.parameters / workers
            compute = LAYERS * times["block_s"] + times["rest_s"] + optimizer
            seconds = step_s(program, compute, links)
            rate = BATCH * LENGTH / seconds
            rows.append({"workers": workers, "mode": mode, "compute_s": compute, "step_s": seconds, "tokens": rate})
    return {"device": measured["device"], "rows": rows}


def score(predicted: dict[str, Any]) -> str:
    """A table beside what torchtitan published."""
    lines = [
        "| torchtitan | GPUs | predicted, tokens/s a GPU | published | error |\n| --- | ---: | ---: | ---: | ---: |"
    ]
    published = dict(zip(("eager", "compiled"), TABLES, strict=True))
    for row in predicted["rows"]:
        table = published[row["mode"]]
        rate = table.tokens[row["workers"]]
        error = row["tokens"] / rate - 1
        lines.append(f"| {table.name} | {row['workers']} | {row['tokens']:,.0f} | {rate:,.0f} | {error:+.1%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("measure", "predict", "score"))
    parser.add_argument("file", type=Path, nargs="?", help="what the verb before wrote")
    parser.add_argument("--tiny", action="store_true", help="a tiny block on CPUs, to try it")
    parser.add_argument("--out", type=Path, help="file for the JSON")
    options = parser.parse_args()
    if options.verb == "measure":
        device = torch.device("cpu") if options.tiny else torch.device("cuda", 0)
        result = measure(TINY, device, (False,)) if options.tiny else measure(FULL, device)
    elif options.file is None:
        parser.error(f"{options.verb} needs the file that the verb before wrote")
    elif options.verb == "score":
        print(score(json.loads(options.file.read_text())))
        return
    else:
        result = predict(json.loads(options.file.read_text()))
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
