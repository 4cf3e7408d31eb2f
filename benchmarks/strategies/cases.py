"""The trials that ``strategies.py`` runs, in order of interest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RESNET = {
    "model": "resnet50",
    "precision": "bf16",
    "data": {"shape": [3, 224, 224], "classes": 1000},
    "options": {"channelsLast": True},
}
SMALL = {
    "model": "gpt2_small",
    "precision": "bf16",
    "data": {"shape": [1024]},
    "options": {"compile": True},
    "optimizer": {"name": "adamw", "learningRate": 0.0003},
}
LARGE = {**SMALL, "model": "gpt2_large", "options": {}}
SIZES = {"minBytes": 1 << 10, "maxBytes": 1 << 28, "factor": 4, "iterations": 20, "warmup": 5}
TINY_IMAGES = {"model": "resnet20", "data": {"shape": [3, 8, 8], "classes": 5}}
TINY_TOKENS = {"model": "gpt2_tiny", "data": {}, "precision": "bf16"}


@dataclass(frozen=True)
class Case:
    """One trial; ``seconds`` is about what it takes on H200s, start and checks included."""

    name: str
    workers: int
    batch: int
    workload: Mapping[str, Any]
    seconds: float = 25
    steps: int = 25
    exposed: bool = False


def with_options(workload: Mapping[str, Any], strategy: str = "ddp", **options: Any) -> dict[str, Any]:
    """The workload under a strategy, with further options."""
    return {**workload, "strategy": strategy, "options": {**workload.get("options", {}), **options}}


def on_gpus(workers: int) -> list[list[Case]]:
    """Groups in order of interest; those of one group run side by side, if there are GPUs for all."""

    def resnet(name: str, strategy: str = "ddp", count: int = workers, exposed: bool = False, **options: Any) -> Case:
        workload = with_options(RESNET, strategy, **options)
        return Case(f"resnet50 {name}", count, 256, workload, exposed=exposed)

    many = [
        [resnet("ddp", exposed=True)],
        [resnet("dp", "dp")],
        [resnet("fsdp", "fsdp")],
        [resnet("zero1", "zero1")],
        [resnet("hook bf16", exposed=True, commHook="bf16")],
        [resnet("hook fp16", commHook="fp16")],
        [resnet("hook powersgd 2", commHook="powersgd", commHookRank=2)],
        [Case("gpt2_large ddp", workers, 8, with_options(LARGE), 50, 15)],
        [Case("gpt2_large fsdp", workers, 8, with_options(LARGE, "fsdp"), 50, 15)],
        [Case("gpt2_small compiled ddp", workers, 32, with_options(SMALL), 75)],
        [resnet("ddp alone", count=1), resnet("dp alone", "dp", count=1)],
        [
            Case("gpt2_small compiled ddp alone", 1, 32, with_options(SMALL), 75),
            Case("gpt2_large ddp alone", 1, 8, with_options(LARGE), 50, 15),
        ],
        *([all_reduce(workers, algorithm)] for algorithm in ("ring", "tree")),
        [resnet("ddp, NCCL ring")],
        [resnet("ddp, NCCL tree")],
        [resnet("hook eight-bit", commHook="eight-bit")],
        [resnet("hook one-bit", commHook="one-bit")],
        [resnet("hook top-k 0.01", commHook="top-k")],
        [Case("gpt2_large fsdp alone", 1, 8, with_options(LARGE, "fsdp"), 50, 15)],
    ]
    return [[_algorithm(case) for case in group] for group in many]


def everywhere(workers: int) -> list[list[Case]]:
    """GPT-2 small and DataParallel with persistent threads, then ResNet-50 under every strategy on all GPUs."""

    def resnet(name: str, strategy: str = "ddp", count: int = workers, exposed: bool = False, **options: Any) -> Case:
        return Case(f"resnet50 {name}", count, 256, with_options(RESNET, strategy, **options), 20, exposed=exposed)

    def small(count: int) -> Case:
        workload = with_options({**SMALL, "data": {"shape": [1024], "classes": 50_304}})
        return Case("gpt2_small padded compiled ddp", count, 32, workload, 40)

    def parallel(count: int) -> Case:
        return resnet("DataParallel, kept threads", "dp", count, keepThreads=True)

    fewer = [2] if workers > 2 else []
    many = [
        [small(workers)],
        [*map(small, fewer), small(1), *([parallel(1)] if fewer else [])],
        *([parallel(count)] for count in (workers, *fewer)),
        [resnet("DataParallel", "dp")],
        [resnet("ddp", exposed=True)],
        [resnet("fsdp", "fsdp")],
        [resnet("hook bf16", commHook="bf16")],
        [resnet("hook top-k 0.01", commHook="top-k")],
        [resnet("hook powersgd 2", commHook="powersgd", commHookRank=2)],
        [resnet("zero1", "zero1")],
        *([resnet("hook top-k 0.01", count=count, commHook="top-k"), resnet("ddp", count=count)] for count in fewer),
        [resnet("ddp, NCCL ring")],
        [resnet("ddp, NCCL tree")],
        [resnet("hook fp16", commHook="fp16")],
        [resnet("hook eight-bit", commHook="eight-bit")],
        [resnet("hook one-bit", commHook="one-bit")],
        *([all_reduce(workers, algorithm)] for algorithm in ("ring", "tree")),
    ]
    return [[_algorithm(case) for case in group] for group in many]


def on_cpus(workers: int) -> list[list[Case]]:
    """Small enough for CPUs: it tries the script, and shows nothing about speed."""
    cases = [
        Case("resnet20 ddp", workers, 4, with_options(TINY_IMAGES), steps=3, exposed=True),
        Case("resnet20 hook powersgd", workers, 4, with_options(TINY_IMAGES, commHook="powersgd"), steps=3),
        Case("gpt2_tiny fsdp", workers, 4, with_options(TINY_TOKENS, "fsdp"), steps=3),
    ]
    alone = [
        Case(f"resnet20 {name} alone", 1, 4, with_options(TINY_IMAGES, name), steps=3) for name in ("ddp", "zero1")
    ]
    return [*([case] for case in cases), alone, [all_reduce(workers, "ring", 1 << 12)]]


def all_reduce(workers: int, algorithm: str, most: int = 1 << 28) -> Case:
    """The all-reduce alone, by one of NCCL's algorithms."""
    sizes = {**SIZES, "maxBytes": most}
    workload = {"program": "allreduce", "allReduce": algorithm, "sizes": sizes}
    return Case(f"all-reduce {algorithm}", workers, 1, workload)


def _algorithm(case: Case) -> Case:
    name, _, algorithm = case.name.partition(", NCCL ")
    if not algorithm:
        return case
    return Case(f"{name}, NCCL {algorithm}", case.workers, case.batch, {**case.workload, "allReduce": algorithm})
