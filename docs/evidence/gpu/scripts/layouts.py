"""Does the harness measure layouts of two GPUs as a plain loop would? Its throughput over that of a hand-written loop.

    PYTHONPATH=. python docs/evidence/gpu/scripts/layouts.py --out layouts.json

Tensor, pipeline and context parallelism over two ranks: one torchrun for each configuration, inside it the program
under the harness and ``plain_layouts.py`` in turns, on fresh models, in the order A B, B A, A B. Each pair is written
as soon as it is measured. The harness draws its parameters on the device here, not on the host, and ``--no-digests``
leaves out its digests of all parameters: both save time before and after the timed windows, and none within them.
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.fidelity.fidelity import BAR, WARMUP, metrics_port

WORKERS = 2


@dataclass(frozen=True)
class Layout:
    """One comparison; ``batch`` is the global one, and ``parts`` are the micro-batches of a pipeline."""

    name: str
    kind: str
    model: str
    batch: int
    length: int
    steps: int
    windows: int = 3
    parts: int = 1
    checkpointing: str = "none"


LAYOUTS = (
    Layout("tp llama_1b", "tensor", "llama_1b", 8, 2048, 12),
    Layout("pp llama_1b", "pipeline", "llama_1b", 8, 2048, 12, parts=4),
    Layout("cp llama_1b 8k", "context", "llama_1b", 1, 8192, 16, checkpointing="full"),
    Layout("tp gpt2_large", "tensor", "gpt2_large", 16, 1024, 12),
    Layout("pp gpt2_large", "pipeline", "gpt2_large", 16, 1024, 12, parts=4),
)
QUICK = (
    Layout("tp llama_tiny", "tensor", "llama_tiny", 8, 32, 3, windows=2),
    Layout("tp gpt2_tiny", "tensor", "gpt2_tiny", 8, 32, 3, windows=2),
    Layout("pp llama_tiny", "pipeline", "llama_tiny", 8, 32, 3, windows=2, parts=4),
    Layout("cp llama_tiny", "context", "llama_tiny", 2, 32, 3, windows=2, checkpointing="full"),
)
"""Small enough for CPUs: they try the script, and show nothing about fidelity."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=3)
    arguments.add_argument("--only", nargs="+", default=[""], help="only configurations whose names begin so")
    arguments.add_argument("--quick", action="store_true", help="tiny models on CPUs, to try the script")
    arguments.add_argument("--no-digests", action="store_true", help="saves 20 to 30 s a run of llama_1b")
    arguments.add_argument("--limit", type=float, default=200.0, help="seconds for one configuration")
    arguments.add_argument("--seconds", type=float, default=3600.0, help="for all of them; what is left over is cut")
    arguments.add_argument("--out", type=Path, default=None, help="file for the JSON")
    arguments.add_argument("--inside", type=Path, default=None, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.inside:
        run_inside(given.inside)
        return 0
    rows = []
    for row in run_all(QUICK if given.quick else LAYOUTS, given):
        rows.append(row)
        if given.out:
            given.out.write_text(json.dumps({"bar": BAR, "warmup_steps": WARMUP, "rows": rows}, indent=1) + "\n")
        print(line(row), flush=True)
    print(table(rows))
    met = all(row.get("ratio_median", 0) >= BAR and "error" not in row for row in rows)
    return 0 if met or given.quick else 1


def run_all(layouts: Sequence[Layout], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    over = time.monotonic() + given.seconds
    for layout in layouts:
        if layout.name.startswith(tuple(given.only)):
            left = min(given.limit, over - time.monotonic())
            enough = left > 30
            yield launch(layout, given, left) if enough else {**asdict(layout), "error": "no time"}


def launch(layout: Layout, given: argparse.Namespace, limit: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        asked = {"pairs": given.pairs, "cpu": given.quick, "digests": not given.no_digests, "layout": asdict(layout)}
        request = Path(folder, "request.json")
        request.write_text(json.dumps(asked))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORKERS}"]
        process = subprocess.Popen([*command, __file__, "--inside", str(request)])
        try:
            status = process.wait(timeout=limit)
            error = f"torchrun ended with {status}" if status else None
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            error = f"not done after {limit:.0f} s"
        results = Path(folder, "results.jsonl")
        lines = [json.loads(each) for each in results.read_text().splitlines()] if results.exists() else []
    row = lines[-1] if lines else asdict(layout)
    return row | {"digests": not given.no_digests} | ({"error": error} if error else {})


def run_inside(request: Path) -> None:
    """One rank: its pairs in turn, each written as soon as it is measured."""
    import torch
    import torch.distributed as dist

    asked = json.loads(request.read_text())
    layout = Layout(**asked["layout"])
    device = torch.device("cpu") if asked["cpu"] else torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if asked["cpu"] else "nccl", device_id=None if asked["cpu"] else device)
    if not asked["digests"]:
        from scalecurve_worker.extras.layouts import program

        setattr(program, "checksum", lambda _: "left out")  # noqa: B010 - typed as another function
    try:
        for row in compare(layout, asked["pairs"], device):
            if dist.get_rank() == 0:
                with request.with_name("results.jsonl").open("a") as file:
                    file.write(json.dumps(row) + "\n")
    except Exception:
        traceback.print_exc()
        os._exit(1)  # the other rank waits in a collective: torchrun ends it
    dist.barrier()
    dist.destroy_process_group()


def compare(layout: Layout, pairs: int, device: Any) -> Iterator[dict[str, Any]]:
    """A row of the pairs so far, after each."""
    import torch

    from scalecurve_worker.extras.layouts.meshes import make_meshes

    meshes = make_meshes(trial_of(layout, 0, device.type).point.parallelism, device)
    rates: dict[str, list[float]] = {"plain": [], "harness": []}
    seconds: dict[str, list[float]] = {"plain": [], "harness": []}
    about: list[dict[str, Any]] = []
    for pair in range(pairs):
        for arm in ("harness", "plain") if pair % 2 == 0 else ("plain", "harness"):
            began = time.monotonic()
            if arm == "plain":
                rates[arm].append(run_plain(layout, device))
            else:
                rate, said = run_harness(layout, pair, meshes, device)
                rates[arm].append(rate)
                about.append(said)
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
            seconds[arm].append(time.monotonic() - began)
        yield result(layout, rates, seconds, about, device)


def run_plain(layout: Layout, device: Any) -> float:
    from plain_layouts import measure

    steps, recomputed = layout.steps * layout.windows, layout.checkpointing == "full"
    return measure(
        layout.kind,
        layout.model,
        layout.batch,
        layout.length,
        steps,
        WARMUP,
        device,
        layout.parts,
        recomputed,
    )


def run_harness(layout: Layout, repetition: int, meshes: Any, device: Any) -> tuple[float, dict[str, Any]]:
    """Tokens a second as the trial's record gives it, and what else the record says that may matter."""
    import torch.distributed as dist

    from scalecurve_api.contract import METRICS_PORT_ENV, OUT_ENV, TRIAL_ENV, rank_file
    from scalecurve_api.programs.torch import TorchWorkload
    from scalecurve_worker.extras.layouts import program
    from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
    from scalecurve_worker.torch.device import set_arithmetic
    from scalecurve_worker.torch.job import TorchJob

    class JobOnDevice(TorchJob):
        def build(self, data: Any) -> Any:
            with self.device:
                return super().build(data)

    trial = trial_of(layout, repetition, device.type)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({TRIAL_ENV: json.dumps(trial.wire()), OUT_ENV: folder, **metrics_port(METRICS_PORT_ENV)})
        set_arithmetic(trial.workload.precision, device, trial.workload.options)
        program._measure(JobOnDevice(trial, trial.workload_as(TorchWorkload), device, program._unwrapped), meshes)
        record = json.loads(Path(folder, rank_file(dist.get_rank())).read_text())
    mine = [(window["samples"], window["wallNs"]) for window in record["windows"] if window["kind"] == "train"]
    windows = list(zip(*TorchCommunicator().all_gather(mine), strict=True))
    samples = sum(samples for window in windows for samples, _ in window)
    wall_ns = sum(max(wall for _, wall in window) for window in windows)
    said = {"warmup": record["warmup"], "equality": record.get("equality"), "peakMemory": record.get("peakMemoryBytes")}
    return float(samples / wall_ns * 1e9), said


def trial_of(layout: Layout, repetition: int, device: str) -> Any:
    from scalecurve_api.programs.parallelism import Parallelism
    from scalecurve_api.spec.trial import TrialSpec

    wanted = {"replicate": 1, layout.kind: WORKERS, **({"microBatches": layout.parts} if layout.parts > 1 else {})}
    degrees = Parallelism.model_validate(wanted).degrees(WORKERS, WORKERS, layout.batch)
    assert degrees is not None
    return TrialSpec.model_validate(
        {
            "experiment": "layouts",
            "name": f"layouts-{layout.kind}",
            "point": {
                "mode": "strong",
                "workers": WORKERS,
                "nodes": 1,
                "workersPerNode": WORKERS,
                "globalBatch": layout.batch,
                "series": "strong",
                "name": f"strong-{WORKERS}-1x{WORKERS}",
                "parallelism": degrees.wire(),
            },
            "repetition": repetition,
            "seed": 0,
            "workload": {
                "program": "torch",
                "model": layout.model,
                "precision": "bf16",
                "device": "gpu" if device == "cuda" else "cpu",
                "data": {"sequenceLength": layout.length},
                "parallelism": wanted,
                "options": {"activationCheckpointing": layout.checkpointing},
            },
            "measure": {
                "warmupSteps": WARMUP,
                "maxWarmupSteps": 2 * WARMUP,
                "windows": layout.windows,
                "stepsPerWindow": layout.steps,
                "exposedCommunication": False,
            },
        }
    )


def result(layout: Layout, rates: Any, seconds: Any, about: list[dict[str, Any]], device: Any) -> dict[str, Any]:
    import torch

    plain, harness = rates["plain"], rates["harness"]
    ratios = [ours / theirs for ours, theirs in zip(harness, plain, strict=True)]
    return {
        **asdict(layout),
        "plain": list(plain),
        "harness": list(harness),
        "plain_median": statistics.median(plain),
        "harness_median": statistics.median(harness),
        "plain_spread": max(plain) / min(plain) - 1,
        "ratios": ratios,
        "ratio_median": statistics.median(ratios),
        "seconds": {arm: list(each) for arm, each in seconds.items()},
        "records": list(about),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
    }


def line(row: dict[str, Any]) -> str:
    if not row.get("ratios"):
        return f"{row['name']:<18}  failed: {row.get('error')}"
    pairs = " ".join(f"{ratio:.4f}" for ratio in row["ratios"])
    numbers = f"{row['plain_median']:>12,.1f}{row['harness_median']:>12,.1f}{row['ratio_median']:>9.4f}"
    error = f"  {row['error']}" if "error" in row else ""
    return f"{row['name']:<18}{numbers}{row['plain_spread']:>9.4f}  {pairs}{error}"


def table(rows: list[dict[str, Any]]) -> str:
    head = f"{'configuration':<18}{'plain/s':>12}{'harness/s':>12}{'ratio':>9}{'spread':>9}  of pairs"
    return "\n".join([head, *map(line, rows)])


if __name__ == "__main__":
    sys.exit(main())
