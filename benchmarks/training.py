"""What augmentation and frozen layers do to the throughput of training on one GPU: tables, and JSON.

    PYTHONPATH=api:worker python -m benchmarks.training resnet44 --out resnet44.json --seconds 75
    PYTHONPATH=api:worker python -m benchmarks.training resnet50 --out resnet50.json --seconds 45

``resnet44``: CIFAR-shaped synthetic images, M copies of each sample in one batch, cropped, mirrored and cut out on the
device. ``resnet50``: everything trained, against the head alone. Every trial is the worker's own, with windows and
checks as under an engine, one after another in this process; a line is printed after each, and the JSON written. What
would not end within ``--seconds`` is left out and named. Needs torch and pydantic, nothing else.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, rank_file
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.record.assemble import combine_windows
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_worker.torch.program import run

CIFAR = {"shape": [3, 32, 32], "classes": 10}
GPU = {"device": "gpu", "precision": "bf16", "options": {"channelsLast": True}}
CPU = {"device": "cpu"}


@dataclass(frozen=True)
class Case:
    """One trial; ``seconds`` is about what it takes."""

    name: str
    batch: int
    workload: Mapping[str, Any]
    steps: int
    seconds: float = 8.0


@dataclass
class Row:
    """What came of it; ``throughput`` is distinct samples a second, ``images`` counts every copy."""

    name: str
    batch: int
    instances: int = 1
    throughput: float | None = None
    images: float | None = None
    windows: list[float] = field(default_factory=list)
    step_ms: float | None = None
    memory_gib: float | None = None
    mfu: float | None = None
    problem: str | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    seconds: float = 0.0


def batch_augmentation(quick: bool) -> Iterator[Case]:
    """M = 1 without any augmentation, for its cost, then M = 1 to 32 with all of it."""
    model, batch, most = ("resnet20", 4, 4) if quick else ("resnet44", 64, 32)
    side = 8 if quick else 32
    image, cutout = {**CIFAR, "shape": [3, side, side]}, side // 2
    yield Case("M = 1, no augmentation", batch, {"model": model, "data": image}, 3 if quick else 60)
    instances = 1
    while instances <= most:
        data = {**image, "augmentation": "standard", "cutout": cutout, "instances": instances}
        yield Case(f"M = {instances}", batch, {"model": model, "data": data}, 3 if quick else max(15, 60 // instances))
        instances *= 2


def transfer(quick: bool) -> Iterator[Case]:
    """Caltech-256's class count at ImageNet's size."""
    model, batch, side = ("resnet18", 2, 32) if quick else ("resnet50", 256, 224)
    data = {"shape": [3, side, side], "classes": 257}
    for name, trained in (("fine-tuned", "all"), ("frozen, head trained", "head")):
        workload = {"model": model, "data": data, "transfer": {"train": trained}}
        yield Case(f"{model} {name}", batch, workload, 3 if quick else 20, 14.0)


GROUPS = {"resnet44": batch_augmentation, "resnet50": transfer}


def main() -> int:
    """Run what fits, and print a line after every trial."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("group", choices=sorted(GROUPS))
    arguments.add_argument("--quick", action="store_true", help="tiny models on a CPU, to try the script")
    arguments.add_argument("--seconds", type=float, default=60.0, help="begin nothing that would not end by then")
    arguments.add_argument("--out", type=Path, default=None, help="file for the JSON")
    given = arguments.parse_args()
    began = time.monotonic()
    if given.quick:
        torch.set_num_threads(1)
    rows: list[Row] = []
    left_out: list[str] = []
    print(HEADING, flush=True)
    for case in GROUPS[given.group](given.quick):
        if time.monotonic() - began + case.seconds > given.seconds:
            left_out.append(case.name)
            continue
        rows.append(timed(case, given.quick))
        print(line(rows[-1], rows[0]), flush=True)
        if given.out:
            found = {"rows": [asdict(row) for row in rows], "leftOut": left_out}
            given.out.write_text(json.dumps(found, indent=1) + "\n")
    if left_out:
        print(f"left out, for lack of time: {', '.join(left_out)}")
    return 1 if any(row.problem for row in rows) else 0


def timed(case: Case, quick: bool) -> Row:
    """One trial in this process; one that fails does not end the others."""
    row, began = Row(case.name, case.batch), time.monotonic()
    trial = trial_of(case, quick)
    row.instances = trial.workload_as(TorchWorkload).data.instances
    with tempfile.TemporaryDirectory() as folder:
        os.environ[OUT_ENV], os.environ[TRIAL_ENV] = folder, json.dumps(trial.wire())
        try:
            run(trial)
            fill(row, trial, RankRecord.model_validate_json(Path(folder, rank_file(0)).read_text()))
        except Exception as error:
            row.problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    row.seconds = time.monotonic() - began
    return row


def fill(row: Row, trial: TrialSpec, record: RankRecord) -> None:
    """Numbers of a checked run."""
    verdict = judge(trial, {0: record}, Outcome(engine="training.py"))
    row.checks = [check.wire() for check in verdict.checks]
    if verdict.phase is not TrialPhase.succeeded:
        row.problem = f"{verdict.reason}: {verdict.message}"
    train = [each for each in combine_windows([record]) if each.kind is WindowKind.train]
    wall = sum(each.wall_ns for each in train) / 1e9
    row.throughput = sum(each.samples for each in train) / wall
    row.images = row.instances * row.throughput
    row.windows = [each.samples / each.wall_ns * 1e9 for each in train]
    row.step_ms = wall / sum(each.steps for each in train) * 1e3
    row.memory_gib = record.peak_memory_bytes / 2**30 if record.peak_memory_bytes else None
    if record.peak_flops and record.flops_per_sample:
        row.mfu = row.throughput * record.flops_per_sample / record.peak_flops
    row.options, row.versions, row.device = record.options, record.versions, record.topology.device_name


def trial_of(case: Case, quick: bool) -> TrialSpec:
    """A point of one worker, without any wrapper; a busy machine is no fault of a dry run."""
    measure: dict[str, float] = {"warmupSteps": 20, "maxWarmupSteps": 60, "windows": 5, "stepsPerWindow": case.steps}
    if quick:
        measure |= {"warmupSteps": 2, "maxWarmupSteps": 2, "windows": 2, "maxForeignLoad": 1.0}
    return TrialSpec.model_validate(
        {
            "experiment": "training",
            "name": "weak-1",
            "point": {
                "mode": "weak",
                "workers": 1,
                "nodes": 1,
                "workersPerNode": 1,
                "batchPerWorker": case.batch,
                "globalBatch": case.batch,
                "series": "weak",
                "name": "weak-1",
            },
            "repetition": 0,
            "seed": 0,
            "workload": {"program": "torch", "strategy": "single", **(CPU if quick else GPU), **case.workload},
            "measure": {**measure, "exposedCommunication": False},
        }
    )


HEADING = (
    f"{'case':30} {'images/step':>11} {'samples/s':>11} {'images/s':>11} {'to first':>8} {'spread':>7} "
    f"{'step ms':>8} {'GiB':>6} {'MFU':>6} {'s':>4}"
)


def line(row: Row, first: Row) -> str:
    """For people; ``to first`` compares images a second, ``spread`` is between the windows."""
    ratio = row.images / first.images if row.images and first.images else None
    numbers = (
        f"{row.instances * row.batch:>11} {_of(row.throughput, ',.0f'):>11} {_of(row.images, ',.0f'):>11} "
        f"{_of(ratio, '.3f'):>8} {_of(_spread(row.windows), '.1%'):>7} {_of(row.step_ms, '.2f'):>8} "
        f"{_of(row.memory_gib, '.1f'):>6} {_of(row.mfu, '.1%'):>6} {row.seconds:>4.0f}"
    )
    return f"{row.name:30} {numbers}" + (f"  NOT VALID: {row.problem}" if row.problem else "")


def _spread(windows: Sequence[float]) -> float | None:
    return (max(windows) - min(windows)) / min(windows) if windows else None


def _of(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


if __name__ == "__main__":
    sys.exit(main())
