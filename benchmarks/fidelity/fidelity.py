"""Does the harness measure what a plain loop would? Its throughput over that of a hand-written DDP loop.

    PYTHONPATH=api:worker python -m benchmarks.fidelity.fidelity --out fidelity.json

For each worker count one torchrun starts; inside it every configuration runs the torch program under the harness and
``plain_ddp.py`` in turns, on fresh models, in the order A B, B A, A B. Both use the same model definitions,
precision, memory format and optimizer. ``--strategies`` does so for FSDP2 by block, HSDP, activation checkpointing
and DDP of GPT-2, against ``plain_fsdp.py``, ``--llama`` for a Llama of a billion parameters, recomputed. The harness
pays for its windows, journal, metrics, checks and GPU samples; the plain loop is timed once over as many steps. Each
pair is written as soon as it is measured, so a configuration that fails or runs out of time keeps those that it has,
and the others still run.
``engine_fidelity.py`` compares the whole of ``scalecurve run``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.fidelity.equivalence import overhead

BAR = 0.995
WARMUP = 20


@dataclass(frozen=True)
class Configuration:
    """One comparison; ``batch`` is each worker's."""

    name: str
    model: str
    workers: int
    batch: int
    steps: int
    windows: int = 3
    compiled: bool = False
    strategy: str = "ddp"
    shard: int = 0
    checkpointing: str = "none"


def configurations(workers: int) -> list[Configuration]:
    """What runs at a worker count: windows of about 1.5 s on an H200."""
    found = [Configuration(f"resnet50 weak 256 x {workers}", "resnet50", workers, 256, 25)]
    if workers > 1:
        steps = {2: 50}.get(workers, 80)
        found.append(Configuration(f"resnet50 strong 256 / {workers}", "resnet50", workers, 256 // workers, steps))
    found.append(Configuration(f"vgg16 weak 256 x {workers}", "vgg16", workers, 256, 15))
    found.append(Configuration(f"gpt2_small weak 16 x {workers}", "gpt2_small", workers, 16, 20))
    found.append(Configuration(f"gpt2_large weak 8 x {workers}", "gpt2_large", workers, 8, 24))
    return found


def quick(workers: int) -> list[Configuration]:
    """Small enough for a CPU: it tries the script, and shows nothing about fidelity."""
    return [Configuration(f"resnet20 weak 8 x {workers}", "resnet20", workers, 8, 10, windows=2)]


def compiled(workers: int) -> list[Configuration]:
    """ResNet-50 and GPT-2 small under torch.compile, on one worker."""
    if workers > 1:
        return []
    return [
        Configuration("resnet50 compiled 256 x 1", "resnet50", 1, 256, 35, compiled=True),
        Configuration("gpt2_small compiled 32 x 1", "gpt2_small", 1, 32, 12, compiled=True),
    ]


def strategies(workers: int, cpu: bool) -> list[Configuration]:
    """GPT-2 under each way to spread it; with ``cpu`` a tiny one, to try the script."""
    model, batch, steps = ("gpt2_tiny", 4, 10) if cpu else ("gpt2_large", 8, 24)

    def one(name: str, strategy: str, **more: Any) -> Configuration:
        name = f"{model} {name} {batch} x {workers}"
        return Configuration(name, model, workers, batch, steps, windows=2 if cpu else 3, strategy=strategy, **more)

    found = [one("fsdp", "fsdp"), one("ddp", "ddp"), one("fsdp recomputed", "fsdp", checkpointing="full")]
    if workers > 1:
        found.insert(1, one("hsdp", "fsdp", shard=max(1, workers // 2)))
    return found


def llama(workers: int, cpu: bool) -> list[Configuration]:
    """A Llama of a billion parameters under DDP, its blocks recomputed; with ``cpu`` a tiny one."""
    model, batch, steps = ("llama_tiny", 4, 10) if cpu else ("llama_1b", 4, 12)
    name = f"{model} recomputed {batch} x {workers}"
    return [Configuration(name, model, workers, batch, steps, windows=2 if cpu else 3, checkpointing="full")]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workers", type=int, nargs="+", default=None, help="default: 1, 2, 4 as far as GPUs go")
    arguments.add_argument("--pairs", type=int, default=3)
    arguments.add_argument("--quick", action="store_true", help="a tiny model on CPUs, to try the script")
    arguments.add_argument("--compile", action="store_true", help="the compiled models only")
    arguments.add_argument("--strategies", action="store_true", help="GPT-2 under FSDP2, HSDP and DDP instead")
    arguments.add_argument("--llama", action="store_true", help="a Llama with recomputed blocks instead")
    arguments.add_argument("--batch", type=int, help="of each worker, instead of the configuration's")
    arguments.add_argument("--steps", type=int, help="of a window, instead of the configuration's")
    arguments.add_argument("--exposed", action="store_true", help="alternate with no-communication windows too")
    arguments.add_argument("--only", nargs="+", default=[""], help="only configurations whose names begin so")
    arguments.add_argument("--one-window", action="store_true", help="as many steps, in one window")
    arguments.add_argument("--fixed-batch", action="store_true", help="the plain loop trains on one batch for ever")
    arguments.add_argument("--limit", type=float, default=240.0, help="seconds for one torchrun")
    arguments.add_argument("--out", type=Path, default=None, help="file for the JSON")
    arguments.add_argument("--inside", type=Path, default=None, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.inside:
        run_inside(given.inside)
        return 0
    choose = quick if given.quick else compiled if given.compile else configurations
    rows: list[dict[str, Any]] = []
    for workers in given.workers or default_workers(given.quick):
        if given.strategies or given.llama:
            chosen = (llama if given.llama else strategies)(workers, given.quick)
        else:
            chosen = choose(workers)
        wanted = [resized(each, given.batch, given.steps) for each in chosen if each.name.startswith(tuple(given.only))]
        if given.one_window:
            wanted = [replace(each, steps=each.steps * each.windows, windows=1) for each in wanted]
        for row in run_workers(wanted, workers, given):
            rows.append(row)
            if given.out:
                given.out.write_text(json.dumps(report(rows), indent=1) + "\n")
    print(json.dumps(report(rows), indent=1))
    print(table(rows))
    met = all("error" not in row and row["ratio_median"] >= BAR for row in rows)
    return 0 if met or given.quick else 1


def resized(configuration: Configuration, batch: int | None, steps: int | None) -> Configuration:
    """The configuration with another batch of each worker, and other windows."""
    if batch is not None:
        name = f"{configuration.name.rsplit(' ', 3)[0]} {batch} x {configuration.workers}"
        configuration = replace(configuration, name=name, batch=batch)
    return configuration if steps is None else replace(configuration, steps=steps)


def default_workers(cpu: bool) -> list[int]:
    import torch

    return [1, 2] if cpu else [count for count in (1, 2, 4) if count <= torch.cuda.device_count()]


def run_workers(wanted: Sequence[Configuration], workers: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Start torchrun as often as it takes: one that dies costs only what is left of the configuration it was at."""
    left = list(wanted)
    while left:
        started, error = launch(left, workers, given)
        done = [row for row in started if "error" in row or len(row["ratios"]) == given.pairs]
        if error and len(done) < len(left):
            begun = started[len(done)] if len(started) > len(done) else asdict(left[len(done)])
            done.append({**begun, "error": error})
        yield from done
        left = left[len(done) :]


def launch(
    wanted: Sequence[Configuration], workers: int, given: argparse.Namespace
) -> tuple[list[dict[str, Any]], str | None]:
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder, "request.json")
        settings = {"pairs": given.pairs, "cpu": given.quick, "exposed": given.exposed, "fixed": given.fixed_batch}
        request.write_text(json.dumps({**settings, "configurations": [asdict(each) for each in wanted]}))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
        command += ["-m", "benchmarks.fidelity.fidelity", "--inside", str(request)]
        began = time.monotonic()
        process = subprocess.Popen(command)
        try:
            status = process.wait(timeout=given.limit)
            error = f"torchrun ended with {status}" if status else None
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            error = f"not done after {given.limit:.0f} s"
        print(f"{workers} workers: {time.monotonic() - began:.0f} s", file=sys.stderr)
        results = Path(folder, "results.jsonl")
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    started = {row["name"]: row for row in lines}  # a configuration's last line has all of its pairs
    if error is None and len(started) < len(wanted):
        error = "torchrun ended early"
    return list(started.values()), error


def run_inside(request: Path) -> None:
    """One rank: all configurations in turn, each pair written as soon as it is measured."""
    import torch
    import torch.distributed as dist

    asked = json.loads(request.read_text())
    device = torch.device("cpu") if asked["cpu"] else torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if asked["cpu"] else "nccl", device_id=None if asked["cpu"] else device)

    def write(row: dict[str, Any]) -> None:
        if dist.get_rank() == 0:
            with request.with_name("results.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")

    for fields in asked["configurations"]:
        compare(Configuration(**fields), asked["pairs"], asked["exposed"], asked["fixed"], device, write)
    dist.destroy_process_group()


def compare(
    configuration: Configuration,
    pairs: int,
    exposed: bool,
    fixed: bool,
    device: Any,
    write: Callable[[dict[str, Any]], None],
) -> None:
    import torch

    plain: list[float] = []
    harness: list[float] = []
    began = time.monotonic()
    try:
        for pair in range(pairs):
            for name in ("harness", "plain") if pair % 2 == 0 else ("plain", "harness"):
                if name == "plain":
                    plain.append(run_plain(configuration, fixed, device))
                else:
                    harness.append(run_harness(configuration, pair, exposed, device))
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
            write(result(configuration, plain, harness, time.monotonic() - began, device))
    except torch.OutOfMemoryError as error:
        # The same on every rank, so the group is still whole.
        write({**asdict(configuration), "error": f"out of memory: {error}"[:300]})
    except Exception:
        traceback.print_exc()
        # The other ranks wait in a collective: torchrun ends them, and the next configuration starts afresh.
        os._exit(1)


def result(
    configuration: Configuration, plain: list[float], harness: list[float], seconds: float, device: Any
) -> dict[str, Any]:
    """A row of the pairs so far, in samples/s."""
    import torch

    ratios = [ours / theirs for ours, theirs in zip(harness, plain, strict=True)]
    bounds = overhead(ratios)
    return {
        **asdict(configuration),
        "plain": list(plain),
        "harness": list(harness),
        "plain_median": statistics.median(plain),
        "harness_median": statistics.median(harness),
        "ratios": ratios,
        "ratio_median": statistics.median(ratios),
        **({"overhead": asdict(bounds)} if bounds else {}),
        "seconds": seconds,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
    }


def run_plain(configuration: Configuration, fixed: bool, device: Any) -> float:
    from benchmarks.fidelity.plain_ddp import POOL, measure
    from benchmarks.fidelity.plain_fsdp import replicated, sharded

    steps, fsdp = configuration.steps * configuration.windows, configuration.strategy == "fsdp"
    recomputed = configuration.checkpointing == "full"
    wrap = replicated(device) if recomputed else None
    return measure(
        configuration.model,
        configuration.batch,
        steps,
        WARMUP,
        device,
        configuration.compiled,
        1 if fixed else POOL,
        sharded(device, configuration.workers, configuration.shard, recomputed) if fsdp else wrap,
        autocast=not fsdp,
    )


def run_harness(configuration: Configuration, repetition: int, exposed: bool, device: Any) -> float:
    """Samples a second of the torch program, as the trial's record gives it."""
    from scalecurve_api.contract import METRICS_PORT_ENV, OUT_ENV, TRIAL_ENV
    from scalecurve_api.programs.torch import TorchWorkload
    from scalecurve_api.record.rank import WindowKind
    from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
    from scalecurve_worker.torch.device import set_arithmetic
    from scalecurve_worker.torch.job import TorchJob
    from scalecurve_worker.torch.program import run_job

    trial = trial_of(configuration, repetition, exposed, device.type)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({TRIAL_ENV: json.dumps(trial.wire()), OUT_ENV: folder, **metrics_port(METRICS_PORT_ENV)})
        set_arithmetic(trial.workload.precision, device, trial.workload.options)
        record = run_job(TorchJob(trial, trial.workload_as(TorchWorkload), device))
    mine = [(window.samples, window.wall_ns) for window in record.windows if window.kind is WindowKind.train]
    windows = list(zip(*TorchCommunicator().all_gather(mine), strict=True))
    samples = sum(samples for window in windows for samples, _ in window)
    wall_ns = sum(max(wall for _, wall in window) for window in windows)
    return float(samples / wall_ns * 1e9)


def metrics_port(name: str) -> dict[str, str]:
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        return {}
    return {name: "0"}


def trial_of(configuration: Configuration, repetition: int, exposed: bool, device: str) -> Any:
    from scalecurve_api.spec.trial import TrialSpec

    workers, batch = configuration.workers, configuration.batch
    return TrialSpec.model_validate(
        {
            "experiment": "fidelity",
            "name": f"fidelity-{workers}",
            "point": {
                "mode": "weak",
                "workers": workers,
                "nodes": 1,
                "workersPerNode": workers,
                "batchPerWorker": batch,
                "globalBatch": batch * workers,
                "series": "weak",
                "name": f"weak-{workers}-1x{workers}",
            },
            "repetition": repetition,
            "seed": 0,
            "workload": {
                "program": "torch",
                "strategy": configuration.strategy,
                "model": configuration.model,
                "precision": "bf16",
                "device": "gpu" if device == "cuda" else "cpu",
                "options": {
                    "channelsLast": not configuration.model.startswith(("gpt2", "llama")),
                    "compile": configuration.compiled,
                    "activationCheckpointing": configuration.checkpointing,
                    **({"shard": configuration.shard} if configuration.shard else {}),
                },
            },
            "measure": {
                "warmupSteps": WARMUP,
                "maxWarmupSteps": 3 * WARMUP,
                "windows": configuration.windows,
                "stepsPerWindow": configuration.steps,
                "exposedCommunication": exposed,
            },
        }
    )


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"bar": BAR, "warmup_steps": WARMUP, "rows": rows}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'configuration':<28}{'plain/s':>12}{'harness/s':>12}{'ratio':>9}  of pairs; overhead at most (95 %)"]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['name']:<28}  failed: {row['error']}")
        if not row.get("ratios"):
            continue
        pairs = " ".join(f"{ratio:.4f}" for ratio in row["ratios"])
        numbers = f"{row['plain_median']:>12,.1f}{row['harness_median']:>12,.1f}{row['ratio_median']:>9.4f}"
        bound = row.get("overhead")
        upper = f"; {bound['upper']:.2%}{', equivalent' if bound['equivalent'] else ''}" if bound else ""
        lines.append(f"{row['name']:<28}{numbers}  {pairs}{upper}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
