"""Throughput of every strategy of the torch program on this machine's GPUs, each run checked: a table, and JSON.

    PYTHONPATH=api:images/worker python benchmarks/strategies.py --out strategies.json --seconds 460

Every trial is a torchrun of the worker with windows and checks as under an engine; its rank records are judged by
``record.verdict``, and one that was not what was asked for shows its reason beside its numbers. Trials of one GPU run
side by side, each on its own. The most wanted come first, and each is printed when it has ended: what does not fit into
``--seconds`` is left out and named. While one runs the next loads its Python, and waits. Needs torch and pydantic.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scalebench_api.processes import processes_of
from scalebench_api.record.assemble import combine_windows
from scalebench_api.record.outcome import Outcome
from scalebench_api.record.rank import RankRecord, WindowKind
from scalebench_api.record.verdict import judge
from scalebench_api.trial import TrialPhase, TrialSpec

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
    script: Sequence[str] = ()
    """Another program of this folder instead of a trial; its output is shown as it is."""


@dataclass
class Row:
    """What came of it."""

    name: str
    workers: int
    throughput: float | None = None
    unit: str = "samples"
    windows: list[float] = field(default_factory=list)
    exposed_ms: float | None = None
    step_ms: float | None = None
    memory_gib: float | None = None
    payload_mib: float | None = None
    wire_mib: float | None = None
    loss: float | None = None
    strategy: str | None = None
    backend: str | None = None
    sizes: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    problem: str | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


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


def again(workers: int) -> list[list[Case]]:
    """What the first collection on H200s left out, or ran before a fault was mended; the most wanted first."""

    def resnet(name: str, strategy: str = "ddp", count: int = workers, **options: Any) -> Case:
        return Case(f"resnet50 {name}", count, 256, with_options(RESNET, strategy, **options), 16)

    def large(name: str, strategy: str, seconds: float) -> Case:
        return Case(f"gpt2_large {name}", workers, 8, with_options(LARGE, strategy), seconds, 10)

    step = Case("gpt2_large on one GPU", 1, 8, {}, 45, script=("gpt2_step.py", "--model", "large"))
    many = [
        [resnet("dp", "dp")],
        [large("ddp", "ddp", 38)],
        [large("fsdp", "fsdp", 45)],
        [resnet("fsdp", "fsdp")],
        [Case("gpt2_small compiled ddp", workers, 32, with_options(SMALL), 60)],
        [resnet("ddp, NCCL ring")],
        [resnet("ddp, NCCL tree")],
        [step, Case("gpt2_small compiled ddp alone", 1, 32, with_options(SMALL), 45)],
        [resnet("hook eight-bit", commHook="eight-bit")],
        [resnet("hook one-bit", commHook="one-bit")],
        [resnet("hook top-k 0.01", commHook="top-k")],
        [resnet("dp alone", "dp", count=1), resnet("ddp alone", count=1)],
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
    script = ("gpt2_step.py", "--model", "tiny", "--batch", "1", "--length", "16", "--steps", "1")
    step = Case("gpt2_tiny on one", 1, 1, {}, script=script)
    return [*([case] for case in cases), alone, [all_reduce(workers, "ring", 1 << 12)], [step]]


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


def main() -> int:
    """Run what fits, and print the lines of every group when it has ended."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--cases", choices=["all", "again"], default="all")
    arguments.add_argument("--quick", action="store_true", help="tiny models on CPUs, to try the script")
    arguments.add_argument("--only", nargs="+", default=[], help="only cases whose name holds one of these")
    arguments.add_argument("--seconds", type=float, default=460.0, help="begin nothing that would not end by then")
    arguments.add_argument("--limit", type=float, default=240.0, help="seconds for one trial")
    arguments.add_argument("--warmup", type=int, default=20, help="steps before a trial's windows, at least")
    arguments.add_argument("--out", type=Path, default=None, help="file for the JSON")
    given = arguments.parse_args()
    began = time.monotonic()
    groups = on_cpus(given.workers) if given.quick else again(given.workers) if given.cases == "again" else None
    wanted = [
        chosen
        for group in groups or on_gpus(given.workers)
        if (chosen := [case for case in group if not given.only or any(word in case.name for word in given.only)])
    ]
    rows: list[Row] = []
    left_out: list[str] = []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        held: list[Running] = []
        for number, group in enumerate(wanted):
            names = [case.name for case in group]
            if time.monotonic() - began + max(case.seconds for case in group) > given.seconds:
                left_out += names
                discard(held)
                held = []
                continue
            running = held or hold(group, Path(folder, str(number)), given)
            release(running)
            after = wanted[number + 1 : number + 2]
            held = hold(after[0], Path(folder, str(number + 1)), given) if after else []
            ended = [finished(each, min(given.limit, given.seconds - (time.monotonic() - began))) for each in running]
            rows += ended
            print("\n".join(line for row in ended for line in lines_of(row)), flush=True)
            print(f"  {time.monotonic() - began:.0f} s: {', '.join(names)}", file=sys.stderr, flush=True)
            if given.out:
                wire = {"rows": [asdict(row) for row in rows], "leftOut": left_out}
                given.out.write_text(json.dumps(wire, indent=1) + "\n")
    if left_out:
        print(f"left out, for lack of time: {', '.join(left_out)}")
    return 1 if any(row.problem for row in rows) else 0


@dataclass
class Running:
    """A case whose processes are there, and wait for a file until ``began``."""

    case: Case
    trial: TrialSpec | None
    out: Path
    process: subprocess.Popen[bytes]
    began: float = 0.0


def hold(cases: Sequence[Case], folder: Path, given: argparse.Namespace) -> list[Running]:
    """Start the processes of every case, on devices of its own, up to where they would touch a device."""
    started = []
    first = 0
    for index, case in enumerate(cases):
        out = folder / str(index)
        out.mkdir(parents=True)
        trial = None if case.script else trial_of(case, given.quick, given.warmup)
        devices = range(first, first + case.workers)
        first += case.workers
        with (out / "log").open("wb") as log:
            process = subprocess.Popen(
                command(case, trial),
                env=environment(trial, out, devices, given.quick),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        started.append(Running(case, trial, out, process))
    return started


def release(running: Sequence[Running]) -> None:
    """Let them begin."""
    for each in running:
        each.began = time.monotonic()
        (each.out / "go").touch()


def discard(running: Sequence[Running]) -> None:
    """End processes that were held for nothing."""
    for each in running:
        each.process.terminate()
        each.process.wait()


def finished(running: Running, limit: float) -> Row:
    """Wait for a case and read its records."""
    case, out = running.case, running.out
    row = Row(case.name, case.workers)
    try:
        status = running.process.wait(timeout=max(1.0, limit))
    except subprocess.TimeoutExpired:
        discard([running])
        status = None
    row.seconds = time.monotonic() - running.began
    said = (out / "log").read_text(errors="replace").splitlines()
    if running.trial is None:
        row.said = said
    if status != 0:
        why = [line for line in said if line.startswith("scalebench:")] or said[-15:]
        row.problem = f"not done after {limit:.0f} s" if status is None else f"exit {status}: {' | '.join(why[:4])}"
    elif running.trial is not None:
        names = [out / f"rank-{rank}.json" for rank in range(case.workers)]
        try:
            ranks = [RankRecord.model_validate_json(name.read_text()) for name in names if name.exists()]
            fill(row, running.trial, ranks)
        except ValueError as error:
            # One unreadable record must not cost the others.
            row.problem = f"records: {str(error).splitlines()[0]}"
    return row


def fill(row: Row, trial: TrialSpec, ranks: Sequence[RankRecord]) -> None:
    """Numbers of a checked run; throughput is all samples over the slowest rank's time of the train windows."""
    verdict = judge(trial, {record.topology.rank: record for record in ranks}, Outcome(engine="strategies.py"))
    row.checks = [check.wire() for check in verdict.checks]
    if verdict.phase is not TrialPhase.succeeded:
        row.problem = f"{verdict.reason}: {verdict.message}"
    if not ranks:
        return
    first = ranks[0]
    row.strategy, row.backend, row.options, row.versions = first.strategy, first.backend, first.options, first.versions
    row.unit, row.loss = first.sample_unit, first.last_loss
    row.sizes = [size.wire() for size in first.allreduce]
    windows = combine_windows(ranks)
    train = [each for each in windows if each.kind is WindowKind.train]
    bare = [each for each in windows if each.kind is WindowKind.no_communication]
    if train and not row.sizes:
        row.throughput = sum(each.samples for each in train) / sum(each.wall_ns for each in train) * 1e9
        row.windows = [each.samples / each.wall_ns * 1e9 for each in train]
        row.step_ms = statistics.median(each.wall_ns / each.steps for each in train) / 1e6
        if bare:
            row.exposed_ms = row.step_ms - statistics.median(each.wall_ns / each.steps for each in bare) / 1e6
    peaks = [record.peak_memory_bytes for record in ranks if record.peak_memory_bytes]
    row.memory_gib = max(peaks) / 2**30 if peaks else None
    if first.traffic:
        row.payload_mib, row.wire_mib = first.traffic.payload_bytes / 2**20, first.traffic.wire_bytes / 2**20


def trial_of(case: Case, cpu: bool, warmup: int) -> TrialSpec:
    """A weak point of one node; a busy machine is no fault of a dry run."""
    measure = {"warmupSteps": warmup, "maxWarmupSteps": 2 * warmup, "windows": 3, "stepsPerWindow": case.steps}
    if cpu:
        measure |= {"warmupSteps": 2, "maxWarmupSteps": 2, "maxForeignLoad": 1.0}
    name = "".join(letter if letter.isalnum() else "-" for letter in case.name.lower())
    return TrialSpec.model_validate(
        {
            "experiment": "strategies",
            "name": name,
            "point": {
                "mode": "weak",
                "workers": case.workers,
                "nodes": 1,
                "workersPerNode": case.workers,
                "batchPerWorker": case.batch,
                "globalBatch": case.batch * case.workers,
                "series": "weak",
                "name": name,
            },
            "repetition": 0,
            "seed": 0,
            "workload": {"program": "torch", "device": "cpu" if cpu else "gpu", **case.workload},
            "measure": {**measure, "exposedCommunication": case.exposed},
        }
    )


def command(case: Case, trial: TrialSpec | None) -> list[str]:
    """As the local engine starts it, but for the waiting."""
    if trial is None:
        return [sys.executable, str(Path(__file__).with_name(case.script[0])), *case.script[1:]]
    processes = processes_of(trial.workload, trial.point.workers)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    return [*torchrun, f"--nproc-per-node={processes}", str(Path(__file__).with_name("held_worker.py"))]


def environment(trial: TrialSpec | None, out: Path, devices: Sequence[int], cpu: bool) -> dict[str, str]:
    """Each worker its GPU and an equal part of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    gpus = max(len(devices), _gpus()) if not cpu else len(devices)
    each = max(1, len(cores) // gpus)
    own = [cores[at * each : (at + 1) * each] or cores for at in devices]
    sets = ";".join(",".join(map(str, part)) for part in own)
    chosen = {} if cpu else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
    pinned = {"SCALEBENCH_CORES": sets} if len(cores) >= gpus else {}
    threads = "1" if cpu else str(max(1, each // 2))
    return {
        **os.environ,
        **chosen,
        **pinned,
        **({"SCALEBENCH_TRIAL": json.dumps(trial.wire())} if trial else {}),
        "HOLD": str(out / "go"),
        "SCALEBENCH_OUT": str(out),
        "SCALEBENCH_THREADS": threads,
        "OMP_NUM_THREADS": threads,
    }


HEAD = f"{'case':34} {'n':>2} {'per second':>12} {'step ms':>8} {'exposed':>8} {'GiB':>6} {'wire MiB':>9} {'s':>4}"


def lines_of(row: Row) -> Iterator[str]:
    """A case, for people."""
    problem = f"  NOT VALID: {row.problem}" if row.problem else ""
    for size in row.sizes:
        numbers = f"{size['bytes']:>12,} B {size['timeUsMedian']:>10.1f} us {size['busbw']:>8.2f} GB/s bus"
        yield f"{row.name:34} {numbers}"
    yield from row.said
    if problem or not (row.sizes or row.said):
        yield (
            f"{row.name:34} {row.workers:>2} {_of(row.throughput, ',.0f'):>12} {_of(row.step_ms, '.1f'):>8} "
            f"{_of(row.exposed_ms, '.1f'):>8} {_of(row.memory_gib, '.1f'):>6} {_of(row.wire_mib, '.1f'):>9} "
            f"{row.seconds:>4.0f}{problem}"
        )


def _of(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


if __name__ == "__main__":
    sys.exit(main())
